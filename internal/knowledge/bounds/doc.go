// Package bounds bounds what a party that is not trusted sends: in bytes, in values and in number.
//
// In: bytes of members, and what is kept of them.
// Out: a [TooMuchError] beyond a bound; the list of all bounds ([Rows]), which docs/security.md shows.
// Owns: the numbers of every bound on what members, their agents and tenants send.
// Never: connects to anything.
package bounds
