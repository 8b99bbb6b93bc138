// Package checks judges what was read of a control plane and its members: facts in, results out. It sends no request and has no clock.
package checks
