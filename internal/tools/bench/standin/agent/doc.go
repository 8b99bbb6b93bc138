// Package agent has clients that send the control plane the requests of an agent, without a member.
package agent
