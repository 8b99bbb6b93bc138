// Package member has one connection per member cluster.
//
// A [Fleet] holds a [Conn] for every Cluster it serves. A Conn stays the same while tokens are renewed, certificates change and the
// address moves. It guarantees:
//
//   - A dead member costs nothing. After a few failures in a row the circuit breaker opens: calls fail at once with an
//     [UnavailableError], watches wait without polling, and a single probe with a backoff finds out when the member is back.
//   - A hanging member is a dead member. Every call has a deadline and every connection is pinged, so that a process that was
//     stopped, or a network that drops packets, is detected within seconds.
//   - A member that was away may be another one, restored from a backup: its watches begin with a list.
//   - A member delays no other. Requests in flight are bounded per member, and package memberqueue has a work queue for each.
//   - Memory follows what is managed: see package objectcache.
//
// In: Clusters, and credentials through [Config.Credentials].
//
// Out: nothing of its own; it sends the requests of others.
//
// Owns: nothing.
//
// Never: writes to a member or to the control plane by itself, limits the rate of requests, or logs a token.
package member
