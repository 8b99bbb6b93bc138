// Package reasons explains a decision of the scheduler, cluster by cluster: what dropped it, and the smallest changes that would let it in.
package reasons
