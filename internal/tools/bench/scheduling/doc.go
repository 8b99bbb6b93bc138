// Package scheduling measures the scheduler on clusters that exist on paper only.
package scheduling
