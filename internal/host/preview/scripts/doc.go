// Package scripts is the customizations of the interpreter in a preview.
package scripts
