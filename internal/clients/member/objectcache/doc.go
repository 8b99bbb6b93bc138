// Package objectcache keeps the managed objects of a member: those with the label karmada.io/managed=true, of the resources that
// are held.
package objectcache
