// Package dependencies has the fields of bindings for dependencies: those of a template with the objects that it refers to, and those of
// a dependency with the templates that refer to it.
//
// A template with propagateDeps is a dependant; the objects that it refers to are propagated to its clusters. Its binding lists the
// references in an annotation. The binding of each dependency is made from these lists: its dependants are all bindings whose list it is on, and
// their targets are its requiredBy. So every binding has one writer, however many depend on it.
package dependencies
