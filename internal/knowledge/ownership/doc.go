// Package ownership decides which objects in a member belong to this control plane, and which of their fields.
//
// In: the id of the control plane; objects of members.
// Out: the owner of an object, the fields that the control plane owns in it, and fingerprints of these.
// Owns: the names of the field managers under which control planes write in a member ([ControlPlane]).
// Never: reads or writes an object of a member.
package ownership
