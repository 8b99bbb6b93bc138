// Package memberaccount has the service accounts of a control plane in a member: their names, their rights and their tokens.
package memberaccount
