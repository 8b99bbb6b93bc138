// Package health adds control loops to what /readyz reports.
package health
