// Package dependencies has what a binding says about the objects that its template refers to, and what the bindings of those say
// about the templates that refer to them.
//
// A template with propagateDeps is a dependant; what it refers to goes where it goes. Its binding lists the references in an
// annotation. From there the binding of each referred template is made: its dependants are all bindings whose list it is on, and
// their targets are its requiredBy. So every binding has one writer, however many depend on it.
package dependencies
