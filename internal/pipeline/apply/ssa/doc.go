// Package ssa has what can be decided about an object of a Work without a request: how a manifest is read and marked, whether
// an object in a member belongs to the Work, how it differs from the manifest, and what a member's refusal of a server-side
// apply means. Its functions are pure.
package ssa
