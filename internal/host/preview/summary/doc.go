// Package summary puts an answer into one sentence.
package summary
