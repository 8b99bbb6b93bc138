// Package schemas caches which schema a member has for each group version, so that a change of it is detected without reading the schema.
package schemas
