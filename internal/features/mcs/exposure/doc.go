// Package exposure is which clusters provide and consume the Service of a MultiClusterService.
package exposure
