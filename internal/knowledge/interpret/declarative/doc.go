// Package declarative runs the Lua of ResourceInterpreterCustomizations.
//
// In: the list of customizations, given to [Store.Set] whenever it changes, and the objects to interpret.
//
// Out: the operations of package interpret that a customization has a script for. Of several scripts for one operation of a kind,
// that of the first customization by name is used; dependencies are collected from all of them.
//
// Owns: the functions that scripts define, and the library kube that they may call. The language and its limits are those of
// package sandbox.
//
// Never: reads an API server, or falls back to another layer when a script fails: a wrong script is an error, not a missing one.
package declarative
