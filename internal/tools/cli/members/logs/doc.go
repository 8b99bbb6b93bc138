// Package logs prints the logs of pods of many clusters, and follows those of pods that are created later.
package logs
