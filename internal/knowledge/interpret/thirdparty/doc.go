// Package thirdparty has the rules for kinds of widely used projects, such as Argo Workflows, Flux, Kruise, Kubeflow, Kyverno,
// Ray, Spark and Volcano.
//
// In: the Lua below kinds, one file for each kind, at <group>/<version>/<Kind>.lua. A file defines the functions of a
// customization that it implements; the functions of prelude.lua go in front of each.
//
// Out: a layer of package interpret, to come after customizations and webhooks and before the built-in knowledge.
//
// Owns: the scripts.
//
// Never: adds to what customizations can do; each file would work as one, with the prelude.
package thirdparty
