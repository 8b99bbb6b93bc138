// Package mcswork is the Works of MultiClusterServices: those that register a provider, those that record one of its EndpointSlices,
// and those that carry a slice to a consumer.
package mcswork
