// Package fleet is what a bench measures: a control plane and members in processes of their own, what is in their API servers, the
// CPU and memory of the control plane, and how often it was written to.
package fleet
