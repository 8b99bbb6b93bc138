// Package fields compares objects field by field, and merges a manifest into an object as "kubectl apply" does.
package fields
