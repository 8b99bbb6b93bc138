// Package ssa has the decisions about an object of a Work that need no request: how a manifest is parsed and labelled, whether
// an object in a member belongs to the Work, how it differs from the manifest, and the meaning of an error of a server-side apply.
// Its functions are pure.
package ssa
