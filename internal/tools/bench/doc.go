// Package bench measures the pipeline from outside, as a user of the API would see it.
//
// It starts a control plane and members as child processes of the same binary, without workload controllers: what is
// measured is the carrying, not the running, so the bench itself reports the members' Deployments as ready. Times are wall
// clock from the first request until a watch shows the last object; CPU and memory are the operating system's account of
// the hub process, which holds the API server, its storage and every controller; writes are counted by the API server.
package bench
