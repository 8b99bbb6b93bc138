// Package inprocess carries HTTP requests to a handler in the same process.
//
// In: requests of clients, and the handler of an API server.
// Out: the handler's answers, streams included.
// Owns: nothing that outlives a request.
// Never: changes a request: the handler authenticates, authorizes and counts it like any other.
//
// Between a control loop and the API server beside it, encryption and framing cost a fifteenth of all the
// work of a write and protect nothing.
package inprocess
