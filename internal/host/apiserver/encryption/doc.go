// Package encryption configures what a control plane stores encrypted, and changes the keys of that.
//
// In: the key file of a server, and its API.
// Out: the EncryptionConfiguration that the API server loads; objects that are stored anew with the first key.
// Owns: the key file and the ConfigMap that records with which key everything is stored.
// Never: decrypts anything itself: the API server does that.
//
// The provider is secretbox (XSalsa20 and Poly1305) with a random nonce of 192 bits, which needs no limit on the number of
// writes with one key. AES-GCM with its random nonce of 96 bits does: Kubernetes gives 200,000 writes, and a control plane
// of 10,000 objects makes more than that in a day.
package encryption
