// Package webhooks bounds at which addresses the API server calls webhooks: those at which members may be. Admission webhooks of a Service
// that only members have are not called.
package webhooks
