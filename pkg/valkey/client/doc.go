// Package client talks to one Valkey server at a time, over radix connections.
//
// It knows nothing of clusters: which server to ask and what to make of the
// answers is the caller's. What it promises, and why (engine.md, "radix v4"):
//
//   - every call ends: it has a deadline, dialling included, and a timer that closes
//     the connection, since radix may ignore deadlines on a connection where
//     one has passed before;
//   - a connection is closed on every error that is not a server's own answer,
//     and is then never used again;
//   - it authenticates as _momento_operator and, if that fails, fails: never as
//     the default user;
//   - before a command that changes anything, the server on that same connection
//     has said the node ID that the caller means. Addresses are reused.
//   - RESP2, no HELLO: push messages would break the call that they precede.
//
// Errors are one of three: *ServerError is what the server answered,
// *IdentityError is that somebody else answered, *UnreachableError is everything
// else: no connection, no TLS, no answer in time, an answer that is not RESP.
package client
