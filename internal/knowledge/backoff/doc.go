// Package backoff has the delays after which controllers try again, by reason. A controller that gets an event when a retry can succeed
// waits for the event instead. Periods that belong to one feature, such as that of the probes of a member, are in the feature.
package backoff
