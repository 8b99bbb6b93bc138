// Package fleetmetrics has the metrics about Clusters and Works that are counted when they are read.
package fleetmetrics
