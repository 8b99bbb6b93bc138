// Package webhook calls interpreter webhooks.
//
// In: the list of ResourceInterpreterWebhookConfigurations, given to [Store.Set] whenever it changes, and the objects to
// interpret.
//
// Out: the operations that a webhook's rules have for a kind. Configurations come in the order of their uids and a
// configuration's webhooks in the order of its list; the first one whose rules match is called. Request and response are a
// ResourceInterpreterContext of config.karmada.io, posted as JSON over TLS.
//
// Owns: the connections to webhooks. Each webhook has its own, with its own certificate authority and timeout, so that a slow one
// delays no other.
//
// Never: calls another webhook, or falls back to another layer, when one fails: the caller retries.
package webhook
