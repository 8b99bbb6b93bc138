// Package exportwork is the Works about exported services: the records of exports and of their EndpointSlices, and those that carry
// imports, derived Services and EndpointSlices to members.
package exportwork
