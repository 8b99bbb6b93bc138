// Package customizations passes the interpreter customizations of users, Lua and webhooks, from the control plane to the interpreter of
// this process.
package customizations
