// Package migrate has the commands that take over what another control plane keeps, and give it back.
package migrate
