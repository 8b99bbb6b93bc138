// Package crds carries CustomResourceDefinitions to members: in order, and without harm to the objects that members have.
//
// A definition is a template like any other. What is different about it are two interfaces. Carrier is a conversion.Adviser:
// which definition an object needs, in which version a cluster can have it, and what it is in the version of its template again; admission
// reads from it where the instances of a definition are. Policy is what apply has for kinds: whether objects of a kind have to wait for
// their definition in a cluster, whether a change of a definition may be made there, whether a definition that others made is the same,
// and whether one may be deleted. An agent has a Policy without a Carrier: it finds definitions in its Works.
//
// A change of a definition is classified by comparing it with the one that the member has, not with an earlier one on the control
// plane: that is what the member's objects and clients use. The comparison is pure, see package compare.
//
// In: metadata of templates, definitions of the control plane, Works, the API lists of Clusters; definitions and their instances in
// members, through the connections of package member.
//
// Out: return values, events about tightened definitions, and the kinds whose objects become something else after a change of their
// definition.
//
// Owns: the annotations and condition types of definitions in api/work/v1alpha1.
//
// Never: writes an object, or waits for a member in a request of a user.
package crds
