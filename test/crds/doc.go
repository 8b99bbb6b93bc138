// Package crds carries definitions that are in wide use through the whole control plane: every one established on the hub
// and in members, an instance of each propagated, its status brought back. They are read from their projects' Go modules,
// which the go command downloads; nothing of theirs is built, and nothing here depends on them. Run it by make test-crds.
package crds
