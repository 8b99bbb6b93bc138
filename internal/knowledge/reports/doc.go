// Package reports bounds what members, and their agents, report: a report is a claim about the member alone, and its size and numbers
// concern no other. What is cut says so.
//
// The bounds apply three times: where a report is written (package workstatus), where an agent's report is admitted, since its
// credential may be stolen, and where reports are combined (package aggregate), since some may be older than the bounds.
package reports
