// Package brake decides whether objects of a member may be removed or scaled down, by how many of its objects that would touch
// within a window of time. It is pure: callers give what exists, what is to be removed and what happens, and a clock is injected.
//
// An object counts as touched from the moment its removal is ordered, and for one window after it was carried out. Because
// removals that are only ordered count, a restart does not admit what was refused before it: the orders are still stored.
//
// A member whose account exceeds the share is engaged: all its removals and shrinkages wait until a person releases the brake, or
// until nothing has waited for a whole window.
package brake
