// Package interpret has the commands that try a customization of the resource interpreter on files.
package interpret
