// Package starttimes stores since when something about a Work has been the case, such as that it fails.
package starttimes
