// Package overlay is a copy-on-write view of a control plane. Reads return what is cached, with the changes made here on top; writes stay
// in memory. Loops run on it as they do on the real one. It is not safe for concurrent use, except for reads and writes of the Hub.
package overlay
