// Package members has the commands that read the objects of many member clusters at once, as kubectl reads those of one: get, describe,
// logs, top and events, and exec, attach and port-forward into one of them; and promote, which brings an object of a member under
// management.
//
// Every request goes through the cluster proxy of the control plane as the calling user, so the member decides what the user may see,
// and members in push and pull mode are read alike. The requests, printers, describers and streams are those of kubectl, with one
// client configuration for each cluster; the package adds which clusters are read, a deadline for each of them, the column CLUSTER and
// the order of rows.
//
// All clusters are read at the same time. What they return is printed when the last one has answered or reached its deadline, except
// for logs and watches, which are printed as they come. A cluster that fails is one line on stderr, and the exit code 1 at the end.
//
// Only cmd/flagship links this package: kubectl's commands would make the binary of a control plane larger and are of no use in it.
package members
