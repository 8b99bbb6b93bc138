// Package memberwatch runs the watches of a member and keeps what they show.
//
// A [Group] runs goroutines that belong to a connection, and waits for them when it is closed. A [Store] keeps, of each object
// that a watch shows, only what its user needs; a [Watch] is a store with the watch that fills it.
package memberwatch
