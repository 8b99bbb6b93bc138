// Package apply writes objects to the control plane and, where clusters are named, a policy for each that propagates it to them.
package apply
