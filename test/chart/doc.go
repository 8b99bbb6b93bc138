// Package chart tests charts/flagship with the library of Helm: its schema, what it renders, the settings and probes of the pods against
// the real server, and what an API server accepts.
//
// The dependencies of Helm belong to this test only, which is why this is a module of its own.
package chart
