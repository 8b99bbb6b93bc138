// Package datadir locks the data directory of an API server.
package datadir
