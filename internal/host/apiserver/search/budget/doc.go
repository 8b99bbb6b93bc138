// Package budget bounds how many answers of members the search API holds in memory at a time, for one tenant and in all.
package budget
