// Package controller is the Kubernetes side of the operator; its sub-packages are the
// controllers. Here is only what all of them are told.
package controller

import (
	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// Config is the operator's configuration (contract §7), read once at the start.
type Config struct {
	// DefaultZoneSpread is for clusters that do not say.
	DefaultZoneSpread v1alpha1.ZoneSpread
	// ClusterDomain ends the DNS names of Services: "cluster.local".
	ClusterDomain string
	// PodUser is user, group and fsGroup of the pods; nil leaves them to the platform.
	PodUser *int64
	// Failover says who starts the election when a primary is proven dead.
	Failover plan.FailoverMode
}

// Leading says whether this process still holds the lease. It is asked before each act.
type Leading func() bool
