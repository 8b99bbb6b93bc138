// Package declarative runs the Lua of ResourceInterpreterCustomizations.
//
// In: the list of customizations, handed to [Store.Set] whenever it changes, and
// the objects that questions are about.
//
// Out: answers to the operations of package interpret that a customization has
// a script for. Scripts of one kind are asked in the order of the
// customizations' names, and the first one there is answers; dependencies are
// collected from all of them.
//
// Owns: the language the scripts see. It is Lua 5.1 with the functions of base,
// string, table and math that a pure function needs, the clock from os, and the
// library kube. Nothing reaches files, processes, the network or another call:
// every call starts from a fresh global environment. A call ends with an error
// after a second, after two million steps, or when it builds a string of more
// than a mebibyte; making strings and lists costs steps, so that memory is
// bounded by them. Metatables, and what loads or compiles more code, are left
// out, because they would lead around these bounds.
//
// Never: reads an API server, or falls back to another layer when a script
// fails: a wrong script is an error, not a missing one.
package declarative
