// Package compare compares definitions of kinds: which changes lose data or fail clients, what a new schema means for objects that
// exist, and where two definitions differ. It is pure.
package compare
