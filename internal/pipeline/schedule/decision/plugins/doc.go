// Package plugins has the filters, which drop clusters that cannot or must not receive an object, and the scorers, which rank those
// that are left.
package plugins
