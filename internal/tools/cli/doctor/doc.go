// Package doctor has the command that checks a control plane and its members.
package doctor
