// Package fleet chooses the member clusters of a command, leads the code of kubectl to each of them through the cluster proxy, reads all
// of them at the same time, each with a deadline, and reports which failed.
package fleet
