// Package definitions installs the CustomResourceDefinitions of the control plane's kinds into a starting API server.
package definitions
