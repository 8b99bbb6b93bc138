// Package clusterset merges the exports of a service in several clusters.
//
// It is pure: exports in, one service and the conflicts between the exports out. Every property of the service is decided
// by itself. Where all exports agree, or their values can be had together, there is nothing to decide; where not, the
// oldest export wins, and of two made in the same second that of the cluster whose name comes first.
package clusterset
