// Package support has the command that collects what is needed to find a fault, without secrets.
package support
