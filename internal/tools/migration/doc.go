// Package migration moves what one control plane keeps to another one that serves the same API, such as from Karmada to Flagship, so that
// no object in a member changes.
//
// It copies objects in an order in which nothing is decided anew: Clusters, to which nothing is written yet, then bindings with the
// clusters they have, then templates, then policies. Then it compares the Works of both control planes, which are what both write to
// members, and only then lets the new one write.
package migration
