// Package drain ends the requests that a stopping server still serves.
package drain
