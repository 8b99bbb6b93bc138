// Package interpret defines what an object of any kind means: its replicas and what each of them needs, the object with another
// number of replicas, its health, the part of its status that is reflected, the aggregation of several statuses, its
// dependencies, and the fields that stay in their cluster.
//
// The package has the operations ([Interpreter]) and combines layers that implement them ([Chain]). The layers are its
// sub-packages, in the order of precedence: declarative runs the Lua of ResourceInterpreterCustomizations, webhook calls
// interpreter webhooks, thirdparty has Lua for widely used projects, builtin has the kinds of Kubernetes.
//
// In: the object and nothing else; no package here reads an API server. Customizations and webhook configurations are given as
// lists.
//
// Out: values. Every operation but Prune leaves its arguments as they were.
//
// Owns: the rules for kinds. No other package switches on an object's kind to find out about replicas, health, status or
// dependencies.
//
// Never: passes the values of a Secret to a layer; writes to an API server, decides what to do with a result, or keeps state about single objects.
package interpret
