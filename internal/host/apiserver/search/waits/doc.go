// Package waits decides which lists are refused while a member does not answer, since a client would take what is missing as deleted.
//
// In: which members do not answer, and which of them the client has objects of. Out: an error that has the client send the list again.
// Owns: for how long lists of each user were refused, for an hour.
package waits
