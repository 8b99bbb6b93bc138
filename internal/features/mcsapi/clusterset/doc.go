// Package clusterset merges the exports of a service in several clusters.
//
// It is pure: exports in, one service and the conflicts between the exports out. Every property of the service is decided
// by itself. Where all exports agree, or their values can be had together, there is nothing to decide; where not, the export
// wins that the control plane recorded first, and of two recorded in the same second that of the cluster whose name comes first. So a
// cluster that exports a service later changes nothing that the others have, whatever times and values it sends.
package clusterset
