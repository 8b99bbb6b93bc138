// Package standin has member clusters for measurements of large fleets: each is a light server, and a thousand of them run in one
// process. The control plane that is measured is the real one, without a change for them.
//
// A stand-in serves what the control plane uses of a Kubernetes API, from memory: discovery with ETags, lists in pages, watches with
// bookmarks and initial events, server-side apply by the library of the API server with the schemas of client-go, merge patches,
// updates, deletions with preconditions and finalizers, definitions of custom kinds, tokens of service accounts. Workloads are ready
// as soon as they are written.
//
// It does not authorize, validate, set defaults or convert between versions, it runs no garbage collector, and it answers in JSON only.
// fleettest.MemberAPI runs the same requests against a stand-in and a real API server.
package standin
