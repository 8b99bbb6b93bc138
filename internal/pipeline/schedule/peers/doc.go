// Package peers is the index of affinity and anti-affinity groups: in which clusters the other objects of a group are.
package peers
