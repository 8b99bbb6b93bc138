// Package jobttl deletes Jobs of the control plane when their ttlSecondsAfterFinished is over, as the controller of that field does in a
// cluster that runs them. The copies go with the template. The controller of Kubernetes would act too early: a Job of the control plane has
// failed once one of its copies has, and the others still run.
//
// In: bindings of Jobs, with the record of the clusters in which they ran to their end; the Jobs.
//
// Out: deleted Jobs.
//
// Owns: nothing.
//
// Never: deletes a Job of which some cluster that should have it has not reported the end, whatever the others report. A cluster that the
// Job is leaving is none of them: its copy goes anyway.
package jobttl
