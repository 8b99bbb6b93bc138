// Package servers measures how long several servers on one etcd take until another one runs the control loops, when the leader crashes and
// when it ends in order.
package servers
