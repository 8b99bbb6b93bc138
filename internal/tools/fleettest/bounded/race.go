//go:build race

package bounded

// instrumented is how many times as much time and memory code takes with the race detector, as its documentation has it: 2 to 20 and 5 to 10.
const instrumented = 5
