// Package fields reads what objects of many kinds have in common: replicas and other numbers, conditions, the pod spec.
package fields
