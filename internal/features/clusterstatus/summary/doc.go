// Package summary adds up the nodes, pods and devices of a member. It keeps what each contributes, not the objects.
package summary
