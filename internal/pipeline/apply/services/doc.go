// Package services has what members refuse of Services: families of addresses and node ports.
package services
