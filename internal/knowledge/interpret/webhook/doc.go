// Package webhook asks interpreter webhooks.
//
// In: the list of ResourceInterpreterWebhookConfigurations, handed to
// [Store.Set] whenever it changes, and the objects that questions are about.
//
// Out: answers to the operations that a webhook's rules claim for a kind. The
// configurations are asked in the order of their uids and a configuration's
// webhooks in the order of its list; the first one whose rules match answers.
// Question and answer are a ResourceInterpreterContext of config.karmada.io,
// posted as JSON over TLS.
//
// Owns: the connections to webhooks. Each webhook has its own, with its own
// certificate authority and timeout, so that a slow one delays nobody else.
//
// Never: asks another webhook, or falls back to another layer, when one fails:
// the caller tries again later.
package webhook
