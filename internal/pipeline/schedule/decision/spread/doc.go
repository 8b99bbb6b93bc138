// Package spread selects clusters so that the spread constraints of a placement are met: groups first, by provider, region, zone or
// label, then clusters.
package spread
