// Package metrics has the metrics of the scheduler.
package metrics
