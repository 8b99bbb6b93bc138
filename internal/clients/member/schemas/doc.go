// Package schemas remembers which schema a member has for each group version, so that a change of it is noticed without reading the schema.
package schemas
