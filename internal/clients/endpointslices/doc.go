// Package endpointslices is what the two features of services share: EndpointSlices of members are watched, recorded in Works, and
// carried by Works to other members.
package endpointslices
