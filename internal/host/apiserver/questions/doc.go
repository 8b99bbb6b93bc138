// Package questions serves kinds of which objects are created and answered, and never stored: Explanation, DriftReport, Preview,
// History, Undeletion and Timeline.
//
// In: requests to create them, from the server in front of the custom resources.
// Out: the answer in the status of the response.
// Owns: the rights of the user that an answer is limited to.
// Never: stores, lists or changes an object of these kinds, or makes the answer itself.
//
// The definitions of the kinds, as custom resources, are what discovery and the OpenAPI documents are made of. [InFront] takes their paths,
// so that nothing reaches the storage that custom resources have. It is for both, since ClusterCapacity is a custom resource of this group:
// a server of the whole group would take that kind's path, too.
package questions
