// Package skew measures how far the clock of an API server is from that of this process, by the header Date of its answers.
package skew
