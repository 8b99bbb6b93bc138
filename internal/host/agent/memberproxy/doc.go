// Package memberproxy answers what the control plane sends through the tunnel of an agent: requests of users of clusters/NAME/proxy.
//
// Each is sent to the API server of the member and nowhere else, as the service account karmada-impersonator of the member, on behalf
// of the user whom the control plane names. The roles of that account, which come in Works, name whom it may impersonate. The agent's
// own rights in the member are not used for these requests.
//
// A request with the host of package drift is of the control plane itself, and is answered with the episodes of drift. The proxy of users sets
// the host, so that no user reaches it.
package memberproxy
