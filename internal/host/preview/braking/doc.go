// Package braking computes what of a change the brakes of clusters hold, with the accounts of package brake, which apply keeps in a control
// plane. What was removed before the change is not in them.
package braking
