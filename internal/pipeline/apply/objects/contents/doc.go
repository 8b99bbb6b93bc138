// Package contents finds what a namespace in a member holds, before the namespace is deleted: objects of others, objects of this control
// plane that are on their way out, and kinds of which the objects cannot be listed.
package contents
