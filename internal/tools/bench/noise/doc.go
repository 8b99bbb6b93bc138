// Package noise measures what the Events of pods cost that a control plane does not manage.
package noise
