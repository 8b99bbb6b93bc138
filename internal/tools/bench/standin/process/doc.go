// Package process runs stand-ins for members in a child process, and sends it requests.
package process
