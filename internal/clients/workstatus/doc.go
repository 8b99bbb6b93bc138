// Package report writes what several rooms have to say about one Work in one moment as one request.
//
// Apply says whether the objects were written, observe says what became of them; both happen within milliseconds of each
// other. A [Writer] collects what is said about a Work over a short window and writes its status once, and only if that
// changes anything.
//
// In: mutations of a Work's status from apply and observe, and Works from the cache.
//
// Out: the status subresource of Works.
//
// Owns: nothing itself. The conditions belong to those who report them; the writer only sees to it that none of the five
// is missing from the first write on.
//
// Never: loses a mutation while its Work exists, or writes a status that is there already.
package workstatus
