// Package drifted makes of the differences between an object in a member and its manifest what the episodes of drift have: field by field
// the values, and the manager that changed it. Its decisions are pure; only the owners of fields are read in the member.
package drifted
