// Package roles gives a new control plane its ClusterRoles, and its first operators all rights.
package roles
