// Package child starts processes that end with this one, and has the functions with which such a process reports to its parent.
package child
