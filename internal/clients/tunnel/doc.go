// Package tunnel carries requests of the control plane to a member that only dials out, over a connection that the agent of the member
// opened: both of its ends. The reasons are in docs/adr/0012.
//
// The agent sends a request to the API server of the control plane and upgrades its connection. On the upgraded connection the agent is
// the server of HTTP/2, and the control plane its client. Each stream carries one connection of HTTP/1.1, because requests that upgrade
// their connection, such as exec, need one of their own. The server of that connection is the agent's Handler; the control plane cannot
// have another address dialled.
package tunnel
