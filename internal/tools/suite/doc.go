// Command suite runs the tests of this repository, and says what they cost.
//
//	suite unit PACKAGE...      runs the packages whose tests start no server, with go test
//	suite fleet PACKAGE...     compiles the packages whose tests start servers, then runs them
//	suite all PACKAGE...       does both, in this order, and reports once
//	suite race PACKAGE...      runs what does not link the API server with the race detector
//	suite list KIND PACKAGE... prints the packages of a kind: unit, fleet, race, all with tests, or any
//
// With --changed REV it takes only packages with a file that differs from that commit, with --reached REV also those
// whose tests depend on one. The report has the slowest tests and packages, the processor time of each package, and what was
// skipped with the reason.
//
// go test links and runs at the same time. A server that waits for a linker misses its leases, so suite links all first.
package main
