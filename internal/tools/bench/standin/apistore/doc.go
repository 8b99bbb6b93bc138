// Package apistore has the objects of a stand-in in memory, and does to them what an API server does: it merges what is applied by the
// library of the API server, checks preconditions, waits for finalizers, serves what definitions define, and sends events to watches.
package apistore
