// Package child starts processes that end with this one, and is what such a process knows of the one that started it.
package child
