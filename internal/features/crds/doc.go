// Package schema carries CustomResourceDefinitions across the fleet: in order, and without harm to the objects that
// members keep.
//
// A definition is a template like any other. What is particular about it is asked of this package, by way of functions
// that hub passes to the verbs:
//
//   - propagate asks which definition an object needs, so that it comes along with its dependencies;
//   - schedule asks whether a kind is defined on the hub, so that no cluster is dropped for lacking what is on its way;
//   - apply asks whether objects of a kind have to wait for their definition in a cluster, whether a change of a
//     definition may leave the hub, whether a definition that somebody else made in a member is the same as ours, and
//     whether one that nobody wants any more may be deleted there;
//   - render asks what an object becomes in a cluster that serves its kind in other versions only, and observe what it is in
//     the hub's again;
//   - admission asks where the instances of a definition are.
//
// A change of a definition is classed by comparing it with the one that the member has, not with an earlier one on the
// hub: that is what the member's objects and clients live with. The comparison is pure, see Compare.
//
// In: metadata of templates, definitions of the hub, Works, the API lists of Clusters; definitions and their instances in
// members, through the connections of package member.
//
// Out: answers, and events about tightened definitions.
//
// Owns: the annotations and condition types of definitions in api/work/v1alpha1.
//
// Never: writes anything, or waits for a member in a request of a user.
package crds
