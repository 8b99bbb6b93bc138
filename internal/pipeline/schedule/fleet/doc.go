// Package fleet keeps the snapshot of all clusters, their nodes and the reservations in them, by which bindings are scheduled.
package fleet
