// Package results has in memory what came of the last apply of each object in members: which fields the member changed, left to other managers or
// refused. It is about this process only: after a start nothing is known.
package results
