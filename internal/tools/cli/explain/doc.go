// Package explain has the command that shows why an object is where it is: it creates an Explanation and prints the answer.
package explain
