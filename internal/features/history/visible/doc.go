// Package visible is what a user may see of revisions and of what was deleted: the parts of a state whose objects the user may get today.
package visible
