// Package versions converts objects between the versions of their kinds, as the API server does for its readers.
package versions
