// Package memberevents shows the warnings of members on the templates of the control plane: what kubectl describe shows in a member, it
// shows on the control plane, too.
//
// A collector has one watch in each member, of the Events of type Warning. Of these it keeps those in namespaces to which Works send
// objects; others cost their decoding. An Event belongs to a Work if its object, or one of the controllers above that by
// ownerReferences, has the annotations of the Work and is one of its manifests. The metadata of these objects is read in the member, at a
// limited rate, and the result is cached by UID. No Event is cached.
//
// Equal warnings of the objects of a Work are one [Warning]: names of pods and their UIDs are replaced in it. A set of Warnings is kept for
// each member, at most 10 for a Work and 128 in all, each for an hour after it was last repeated. The collector reports the whole set
// when a Warning is new, and every ten minutes while it is repeated. In the process of the control plane the report is a function call
// to the [Publisher]. An agent writes it to one Work, a record that admission bounds and that is never applied.
//
// A field that others changed and that apply puts back is a Warning as well.
//
// The Publisher combines the Warnings of all members about a template, at most 16, and publishes each as an Event in memory, with the
// names of the clusters. It trusts neither members nor agents: the binding of a Work in the cluster's own execution namespace decides
// which template is concerned, texts are bounded and have no control characters.
//
// In: Events and metadata of members; the repairs of apply; Works, bindings and Clusters.
//
// Out: Events of templates in memory; the record of an agent; an Event of a Cluster whose Events may not be read.
//
// Owns: the Work flagship-member-events in the execution namespace of a Cluster in Pull mode.
//
// Never: writes to a member, stores an Event of a template, or shows an Event in another namespace than that of the binding.
package memberevents
