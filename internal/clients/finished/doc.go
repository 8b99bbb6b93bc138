// Package finished has which objects in members ran to their end, so that apply does not make them again.
//
// In: changes of objects in members; Works.
//
// Out: nothing. Observe writes what it returns into the status of Works.
//
// Owns: in memory, the last state of finished objects that are gone and whose Work does not report it yet: a cleaner may delete a Job
// within the moments between its end and the write of the status.
//
// Never: takes what a member reports for more than that member.
package finished
