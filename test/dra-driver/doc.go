// Package dradriver runs a classic resource driver, built on the controller library of Kubernetes 1.30, against a
// Flagship hub.
//
// The library belongs to k8s.io/api of that release and cannot be linked together with today's, which is why this is a
// module of its own. What it proves is what no test of our own code can: that the types, the protobuf encoding and
// the behaviour of resource.k8s.io/v1alpha2 are those the drivers of that time were built for.
package dradriver
