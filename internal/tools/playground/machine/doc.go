// Package machine has what a playground needs of the machine: ports that are free, space on the disk, and a data directory that no
// other process uses.
package machine
