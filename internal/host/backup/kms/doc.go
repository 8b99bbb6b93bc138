// Package kms encrypts backups with a key of a key management service, through a plugin that speaks version 2 of Kubernetes' KMS API, as
// kube-apiserver uses it for encryption at rest.
//
// Key encrypts the key of an age file, which encrypts the rest. What the service returns is in the header of the file, as a stanza of the
// type StanzaType.
package kms
