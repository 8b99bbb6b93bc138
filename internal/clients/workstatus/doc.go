// Package workstatus writes what apply and observe report about a Work as one request.
//
// Both report within milliseconds of each other. A [Writer] collects their reports about a Work over a short window and writes the
// status once, and only if that changes something. The namespaces whose objects the Works carry take turns.
//
// In: mutations of a Work's status from apply and observe; Works from the cache.
//
// Out: the status subresource of Works; notifications that other clients changed a status.
//
// Owns: nothing. The conditions belong to those who report them; the writer adds those that are missing to the first write.
//
// Never: loses a mutation while its Work exists, or writes a status that does not change.
package workstatus
