// Package resources has discovery list the resources of the search API that have no objects: proxying and search.
package resources
