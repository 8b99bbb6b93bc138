// Package explain makes the steps of an Explanation from what the stages decided. It decides nothing itself: the reasons are values of
// packages policy, override and schedule/decision, and the conditions of bindings and Works. Each step lists the objects that it reveals;
// [Visible] leaves out those that a user may not get.
package explain
