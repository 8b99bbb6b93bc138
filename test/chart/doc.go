// Package chart tests charts/flagship with the libraries of Helm and kubeconform: its schema, what it renders, its containers as processes
// of this machine, and its installation in a member of a playground.
//
// The dependencies of both belong to this test only, which is why this is a module of its own. testdata has the definitions of the Prometheus
// operator 0.85.0 that the chart has objects of, from example/prometheus-operator-crd of its repository.
package chart
