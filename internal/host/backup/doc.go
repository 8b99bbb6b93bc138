// Package backup writes a backup of a control plane while it runs, and makes a control plane of one.
//
// A backup has the keys and values of the store at one revision of etcd, and the files of the data directory: private keys, certificates,
// configuration. Values are copied as they are stored, so what is encrypted at rest stays so, and both kinds of storage have the same
// backups.
package backup
