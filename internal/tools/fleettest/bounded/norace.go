//go:build !race

package bounded

const instrumented = 1
