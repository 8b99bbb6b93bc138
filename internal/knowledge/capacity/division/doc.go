// Package division divides a number of replicas among clusters by weight.
package division
