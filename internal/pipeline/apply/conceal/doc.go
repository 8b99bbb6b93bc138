// Package conceal leaves values out of a member's answer about an object.
package conceal
