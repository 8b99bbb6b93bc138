// Package pki keeps the keys and certificates of one control plane in one directory.
//
// In: the clock, and the names a certificate has to carry.
// Out: PEM files, keys readable by their owner only.
// Owns: every file in its directory. The authorities ("ca", "front-proxy-ca"), the service account
// key and the encryption key are the same for all servers that share one etcd: give each of them a
// copy of those files, or the same directory. Leaf certificates belong to one server each.
// Never: overwrites an authority or a key, but by its successor; a lost race for creating one is a win for the other.
//
// An authority is valid for ten years. Its successor is trusted for two years and signs for 400 days before the end, so that
// nothing changes for a client that has read the bundle of certificates meanwhile.
package pki
