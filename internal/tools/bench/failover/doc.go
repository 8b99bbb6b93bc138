// Package failover measures the time from the death of a member to healthy copies of its objects in another one.
package failover
