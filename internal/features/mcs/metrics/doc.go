// Package metrics measures how EndpointSlices travel from providers to consumers.
package metrics
