// Package filters has HTTP handlers in front of the API: they restrict or refuse a request before a storage has it.
package filters
