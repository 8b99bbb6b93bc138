// Package sharding decides which of several servers on one storage connects to which member in Push mode. Members are assigned by
// rendezvous hashing over the servers that renew their Leases, so that a server that comes or goes moves its own share and no other.
//
// In: the Leases of the servers in the namespace karmada-system, the Lease of the leader, and the monotonic clock of this process.
//
// Out: which members this server serves, whether it may write, and at which address the server of another member answers.
//
// Owns: the Lease flagship-server-ID of this server, and the deletion of those of servers that are gone.
//
// Never: connects to a member, or decides what a member gets.
//
// The rule. Each server publishes in its Lease its view: the servers over which it hashes. It serves a member only if
//
//   - its published view assigns the member to it,
//   - it has read all Leases after that view was stored, and no server that may still be alive has published a view that assigns the
//     member to that server itself,
//   - it renewed its Lease less than leader.RenewDeadline ago, by its own monotonic clock, counted from before the request.
//
// A server may still be alive for leader.Duration after its Lease was last seen to change. Before a view is published that takes members
// away from the server, it stops to serve them and waits for the difference of both times, in which requests on their way end. So of two
// servers whose views assign a member to each of them, the one that published later reads the view of the other and waits. Both see the
// same Leases in the end, and then have the same view.
package sharding
