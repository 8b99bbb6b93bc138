// Package conceal removes values of an object from the error message of a member.
package conceal
