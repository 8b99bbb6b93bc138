// Package offline is a control plane that exists only as a list of objects, for previews and tests of placements without a server.
package offline
