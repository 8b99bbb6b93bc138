// Package datadir locks the data directory of an API server, and has the exit codes of a process that cannot use it.
package datadir
