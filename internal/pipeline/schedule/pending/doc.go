// Package pending holds the bindings that have to be scheduled again when something else changes: clusters, or the claims that an
// object names.
package pending
