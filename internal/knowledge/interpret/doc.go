// Package interpret answers what an object of any kind means: how many
// replicas it asks for and what each of them needs, how it looks with another
// number of replicas, whether it is healthy, which part of its status is worth
// carrying home, how many statuses become one, what it depends on, and which of
// its fields must not travel.
//
// The package itself holds the questions ([Interpreter]) and the way several
// sources of answers are asked in turn ([Chain]). The sources are its
// sub-packages, in the order in which they are asked: declarative runs the Lua of
// ResourceInterpreterCustomizations, webhook asks over HTTP, thirdparty ships Lua
// for widely used projects, builtin knows the kinds of Kubernetes.
//
// In: the object in question and nothing else; no package here reads an API
// server. Customizations and webhook configurations are handed in as lists.
//
// Out: values. Every operation but Prune leaves its arguments as they were.
//
// Owns: the knowledge about kinds. No other room switches on an object's kind to
// find out about replicas, health, status or dependencies.
//
// Never: writes to an API server, decides what to do with an answer, or keeps
// state about single objects.
package interpret
