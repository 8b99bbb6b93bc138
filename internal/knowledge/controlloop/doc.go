// Package controlloop runs the reconciles of control loops: with a deadline, panics as errors, metrics, and a state for /readyz.
//
// In: a manager, reconcilers and functions that reconcile one object.
// Out: their results; metrics; for each loop whether it runs and whether a reconcile is stuck.
// Owns: nothing.
// Never: retries; the work queue that called it does.
package controlloop
