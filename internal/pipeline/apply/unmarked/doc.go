// Package unmarked takes over a Deployment that Karmada made without a change of its annotations.
//
// The API server raises metadata.generation of a Deployment when an annotation changes, those of apply included. One whose content is as
// desired is therefore taken over by its field ownership and labels alone: the name of the field manager has the id of the control plane,
// and the fields that it owns stand for the annotation LastAppliedAnnotation. The annotations are written with the next change of the content.
package unmarked
