// Package works serves work.karmada.io as a native group of the hub's API server.
//
// In: requests for Works, ResourceBindings and ClusterResourceBindings, and their generated definitions.
// Out: those objects in storage.
// Owns: their defaults and validation, metadata.generation, and the subresources status.
// Never: has anything about the kinds that their definitions do not have: names, columns, schema, defaults and rules
// are those a custom resource would have.
//
// It is native for the sake of speed. These three kinds are nine of ten writes on the way of an object to the members.
// As custom resources they are maps of maps: each write decodes, defaults, prunes, checks and encodes the whole object
// several times, and a minute of their history in the watch caches is most of what the garbage collector walks. As Go
// types the manifests they carry stay the bytes they are.
package works
