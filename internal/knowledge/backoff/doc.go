// Package backoff holds how long controllers wait before they try again, by the reason for which they wait. Where an event comes
// when it is worth trying again, a controller waits for the event and for nothing of this package. Periods that belong to one
// feature, such as how often a member is probed, stay with the feature.
package backoff
