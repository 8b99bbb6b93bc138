// Package aggregate adds up the statuses that the members report for the copies of an object to the status of its template, one
// rule for each kind.
//
// Owns: the condition StatusCurrent on templates.
package aggregate
