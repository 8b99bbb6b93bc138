// Package member is the far shore: one live connection per member cluster.
//
// A [Fleet] holds a [Conn] for every Cluster it serves. A Conn is a stable thing to hold on to: tokens are renewed,
// certificates change and the endpoint moves underneath it without anybody having to reconnect. It keeps five promises
// to the rooms above it:
//
//   - A dead member costs nothing. After a few failures in a row the circuit breaker opens: calls fail at once with an
//     [UnavailableError], watches wait without polling, and a single probe with a backoff finds out when the member is
//     back.
//   - A hanging member is a dead member. Every call has a deadline and every connection is pinged, so that a process
//     that was stopped, or a network that swallows packets, is noticed within seconds.
//   - A member that was away is not taken for what it was. It may have been restored from a backup, so its watches begin
//     with a list then; a version from before proves nothing.
//   - Nobody else pays. Requests in flight are bounded per member, and [Queues] give every member its own queue and
//     workers.
//   - Memory follows what is managed. Only objects labelled karmada.io/managed=true are watched, only of kinds that
//     somebody holds ([Conn.Hold]), and they are kept as JSON without the field ownership of others.
//
// In: Clusters, and credentials through [Config.Credentials].
//
// Out: nothing of its own; it carries the requests of others.
//
// Owns: the names of the field managers under which control planes write in a member ([ControlPlane]).
//
// Never: writes to a member or to the hub by itself, throttles by rate, or logs a token.
package member
