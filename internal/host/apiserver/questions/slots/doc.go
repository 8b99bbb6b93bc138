// Package slots bounds how many questions are answered at the same time: an answer may take a processor for seconds. A tenant has some of the
// slots, and one is left to operators, who have to find out what takes the time of the others.
package slots
