// Package promote brings an object of a member under management: it creates a template from it, and a policy that propagates the template
// to that member and takes the object over.
package promote
