// Package trial has the commands that run a control plane with members on this machine, to try it and to measure it.
package trial
