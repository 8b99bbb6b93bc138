// Package profile makes a scheduling decision: it filters, scores, measures how much fits, selects clusters and divides replicas.
package profile
