// Package search serves the search API: control plane and members as one API server, below proxying/karmada/proxy, and the objects
// of members, below search/cache.
//
// In: requests of users; which resources of which clusters ResourceRegistries select, passed in.
// Out: what members answer to the same user, as one object, list or watch; resource versions that are a version of each cluster.
// Owns: for how long lists were refused because of a member, or ended at it, for an hour. Nothing else outlives a request: every replica of the control
// plane continues what another one began, since a resource version has all that it takes.
// Never: reads a member with other rights than those of the user, keeps an object, or follows a member without an open watch of a user.
//
// Each request to a member is one to clusters/NAME/proxy of this server as the calling user, so that authorization, impersonation, audit
// and the tunnels of members in Pull mode are the same as there.
package search
