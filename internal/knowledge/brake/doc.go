// Package brake decides whether objects of a member may be removed or scaled down, by how many of its objects are
// lost within a window of time. It is pure: callers pass the objects that exist, the removals that are ordered and
// those that were carried out, and a clock is injected.
//
// What counts is the net loss: the difference between the most objects that the member had within the window and those that stay. An object counts
// from the moment its removal is ordered, until the window is over or it is made again; one that was scaled down, until it has its replicas again.
// Because removals that are only ordered count, a restart does not admit what was refused before it: the orders are stored.
//
// When the count of a member exceeds the share, its brake is engaged: all further removals and scale-downs wait until a person releases the brake, or
// until nothing waits.
package brake
