// Package conformance runs Kubernetes' own end-to-end tests of API machinery, unmodified, against a hub.
//
// The tests belong to the release of Kubernetes that the hub embeds. Linking them needs client-go, kubectl and parts of the
// kubelet, which is why this is a module of its own.
//
// Every spec passes or is in listed.yaml with the reason why it cannot pass on a control plane that runs no pods. The list only
// shrinks: the test fails if a listed spec passes, if a listed spec does not exist, or if another spec does not pass.
package conformance
