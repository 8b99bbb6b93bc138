// Package interpreter assembles the interpreter that a control plane, an agent and the command line share.
package interpreter
