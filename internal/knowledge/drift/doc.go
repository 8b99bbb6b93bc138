// Package drift keeps which fields of objects in members differ from their manifests, or differed lately, and what happened to them.
//
// Episodes are in memory, in the process that applies: the control plane, or the agent of a member in pull mode. They cannot be derived,
// since no object has a trace of what was put back. A restart loses it; what still differs is found again.
//
// In: differences that apply found.
// Out: the objects with their fields, as a DriftReport has them.
// Owns: the bounds of what is kept, and when an episode begins and ends.
// Never: has a value of a Secret.
package drift
