// Package unfollowed has what a preview cannot compute, and why: what depends on members, and kinds that nothing acts on.
package unfollowed
