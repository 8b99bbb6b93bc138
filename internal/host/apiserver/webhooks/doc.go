// Package webhooks bounds at which addresses the API server calls webhooks: those at which members may be.
package webhooks
