// Package documents publishes the OpenAPI v3 documents of custom resources, and keeps in memory only what is sent.
//
// In: the definitions as the API server's own informer has them.
// Out: one document for each group version with a custom resource that is served.
// Owns: these documents.
// Never: builds a document that is not requested.
//
// Upstream's controller builds the document of each kind whenever its definition changes, be it a condition, and keeps all
// of them as trees of objects, a quarter of what a definition costs. The server requests all documents from itself once a
// second anyway, and keeps the bytes.
package documents
