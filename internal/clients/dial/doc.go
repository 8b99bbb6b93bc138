// Package dial connects to the API servers of members. The controllers and clusters/NAME/proxy use it, so both reach a member
// the same way: through the proxy of its Cluster and no other, verified, and never at an address that is not allowed.
//
// HTTP_PROXY and HTTPS_PROXY of the environment have no effect here: they would send the credentials of all members to
// an address that no Cluster names.
package dial
