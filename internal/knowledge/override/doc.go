// Package override makes per-cluster edits to a rendered object, as override policies define them.
//
// In: an object, one target cluster, and the override policies that exist.
//
// Out: the edited copy, the rules that were applied, and a verdict with its reason for every rule.
//
// Owns: the order in which policies, rules and overriders take effect.
//
// Never: talks to an API server, or changes what it is given.
package override
