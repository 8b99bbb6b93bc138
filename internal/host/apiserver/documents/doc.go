// Package documents publishes the OpenAPI documents of built-in kinds and of custom resources, and keeps in memory only what is sent.
//
// In: the definitions as the API server's own informer has them; the configuration of each server of built-in kinds.
// Out: one document of version 3 for each group version that is served, and one of version 2 for each server.
// Owns: these documents.
// Never: builds a document of custom resources, or of version 2, that is not requested.
//
// Upstream's controller builds the document of each kind whenever its definition changes, be it a condition, and keeps all
// of them as trees of objects, a quarter of what a definition costs. The server requests all documents of version 3 from itself once a
// second anyway, and keeps the bytes. Of the built-in kinds upstream keeps the trees of both versions, and all definitions: 40 of the 144 MB
// that were alive in an idle control plane.
package documents
