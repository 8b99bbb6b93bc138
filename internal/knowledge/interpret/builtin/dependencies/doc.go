// Package dependencies lists the objects that an object of a built-in kind needs in its namespace.
package dependencies
