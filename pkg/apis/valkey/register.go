// Package valkey holds the API group of the Valkey operator. Its versions are the sub-packages.
package valkey

// GroupName is the API group of every kind of the operator (contract §1).
const GroupName = "valkey.gomomento.com"
