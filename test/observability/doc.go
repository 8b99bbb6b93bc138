// Package observability tests the alerts and the dashboard in deploy/observability with Prometheus' own parser and engine. It is a module of
// its own, so that the product does not have the modules of Prometheus.
package observability
