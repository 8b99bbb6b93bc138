// Package documents publishes the OpenAPI documents of built-in kinds and of custom resources, and keeps in memory only what is sent.
//
// In: the definitions as the API server's own informer has them; the configuration of each server of built-in kinds.
// Out: one document of version 3 for each group version that is served, their index, and one document of version 2 for each server.
// Owns: these documents.
// Never: builds a document that is not requested.
//
// Upstream builds and encodes the documents of all kinds at each start, since its index has the hash of each: a sixth of the processor time of
// a start. Here the index has tags that stand for what a document is made of: the build, the routes, and the definitions with their generations.
//
// Upstream's controller builds the document of each custom kind whenever its definition changes, be it a condition, and keeps all
// of them as trees of objects, a quarter of what a definition costs. Of the built-in kinds upstream keeps the trees of both versions, and all
// definitions: 40 of the 144 MB that were alive in an idle control plane. Here the bytes of what was requested are kept.
package documents
