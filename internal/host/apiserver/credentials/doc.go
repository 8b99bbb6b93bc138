// Package credentials keeps the keys and certificates of one API server: it issues and renews them, writes the kubeconfigs that
// contain them, and replaces the certificate authorities. Package pki reads and writes the files.
package credentials
