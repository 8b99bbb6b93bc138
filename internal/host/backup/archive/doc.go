// Package archive is the format of a backup: a tar archive, compressed with gzip and encrypted with age (age-encryption.org/v1), so that
// the tools age and tar open it, too.
//
//	backup.json      the Header
//	store/00000001   pages of keys and values, each a protobuf KeyValue of etcd behind its length as a varint
//	files/PATH       files of the data directory
//	summary.json     the Summary; an archive without it is incomplete
package archive
