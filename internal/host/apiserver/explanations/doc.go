// Package explanations serves the kind Explanation, of which objects are created and answered, and never stored.
//
// In: requests to create Explanations, from the server in front of the custom resources.
// Out: the answer in the status of the response.
// Owns: the rights of the user that an answer is limited to.
// Never: stores, lists or changes an Explanation, or makes the answer itself.
//
// The definition of the kind, a custom resource, is what discovery and the OpenAPI documents are made of. [InFront] takes its path, so
// that nothing reaches the storage that a custom resource has. It is for both, since ClusterCapacity is a custom resource of this group:
// a server of the whole group would take that kind's path, too.
package explanations
