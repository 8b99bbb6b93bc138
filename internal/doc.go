// Package internal is the map of Flagship: six layers, each a folder, and in each folder its packages.
//
// An object that a user applies to the control plane (a template) passes through six stages. They meet only through objects in the
// control plane's API server.
//
//	template → propagate → schedule → render → apply → member
//	template ← aggregate ←──────────────────── observe ← member
//
// # pipeline: the stages; none imports another
//
//   - propagate: matches templates to policies, claims them, writes the binding.
//   - schedule: chooses clusters and divides replicas.
//   - render: turns one binding into one Work per target.
//   - apply: makes a member match its Works.
//   - observe: reflects status, health and drift of a member into Works.
//   - aggregate: adds up all Works in the binding and in the template's own status.
//
// # clients: the ways to the control plane's objects and to members
//
//   - hubclient: the client for objects of our kinds, which reads its own writes; patches, finalizers, events, lists of Works.
//   - hubstore: finds, watches, reads and writes objects of any kind on the control plane.
//   - member: one live connection per cluster: clients, caches, health, circuit breaker, work queues.
//   - dial: connects to a member's API server: its proxy, its trust, which addresses are allowed, its identity.
//   - tunnel: carries requests to a member over a connection that its agent opened.
//   - customizations: passes the interpreter customizations of users to the interpreter.
//   - endpointslices: watches EndpointSlices of members and writes the Works that record and carry them.
//   - finished: which objects in members ran to their end, and are not made again.
//   - workstatus: writes what apply and observe report about one Work, as one write.
//
// # knowledge: pure, without clients
//
//   - interpret: what a kind means: replicas, requests, health, status, dependencies, retention.
//   - policy: which propagation policy a template belongs to, and why the others lost.
//   - affinity: which clusters a ClusterAffinity selects.
//   - override: edits of a rendered object for a cluster.
//   - capacity: how many replicas fit in a cluster, by its status and by its nodes.
//   - conversion: what objects become in members, for kinds that are not the same in every cluster.
//   - explain: the steps of an Explanation, made of the reasons of policy, override and the scheduler, and what of them a user may see.
//   - drift: which fields of objects in members differ, or differed lately.
//   - events: event values, their reasons, the recorder.
//   - reports: the bounds of what members report.
//   - ownership: which objects in a member belong to this control plane, and which of their fields.
//   - bounds: how much of what members send is read and kept.
//   - brake: whether too many objects of a member are to be removed or scaled down at once.
//   - eviction: the rules of graceful eviction tasks: append, assess, cancel.
//   - history: what a revision of a template is made of, what two of them differ in, and the form in which it is stored.
//   - expectations: separates the events of a controller's own writes from those of others.
//   - fairqueue: a fair queue, so that a namespace with many objects does not delay others.
//   - backoff: how long controllers wait before they try again, by the reason.
//   - controlloop: reconciles with a deadline, a panic as an error, metrics, and the state of each loop for /readyz.
//   - impersonate: who acts in a member for a user of the control plane who uses its proxy.
//   - skew: how far the clock of an API server is from that of this process.
//   - atomicfile: files that a reader finds complete at all times.
//   - version: what was built.
//
// # features: each may be deleted without touching another
//
//   - mcs: MultiClusterServices of Karmada: endpoints collected from providers and dispatched to consumers.
//   - mcsapi: ServiceExports and ServiceImports of SIG-Multicluster's MCS API.
//   - crds: definitions of kinds across the fleet: their order, and which of their changes do harm.
//   - resourceclaims: resource claims of v1alpha2: what they become in a member and what their copies add up to.
//   - deschedule: replicas that cannot run in a cluster move, where the policy requires it.
//   - appfailover: applications that are unhealthy in a cluster for too long leave it.
//   - taintpolicies: the taints that ClusterTaintPolicies add to Clusters and remove.
//   - jobttl: Jobs that are deleted when their ttlSecondsAfterFinished is over.
//   - remedy: the actions that Remedies require of Clusters.
//   - clusterstatus: reports the state of members as Cluster status, and taints those that are not ready.
//   - autoscaled: templates whose replicas follow the autoscalers in members.
//   - namespaces: the namespaces of the control plane in every cluster.
//   - agents: certificates of agents: requests, approval, renewal, and the bootstrap tokens for the first one.
//   - enroll: joining and leaving: credentials and their rotation, execution namespaces, cleanup.
//   - restore: objects in members for which a control plane that was restored from a backup has no Work.
//   - evict: objects leave clusters that fail, and return.
//   - limit: how much may be stored for each namespace.
//   - history: what templates meant for the clusters, as revisions.
//   - memberevents: warnings of members about what is propagated become events of templates.
//
// # host: the process
//
//   - apiserver: the embedded API server, its storage, certificates and built-in controllers.
//   - admission: defaults and validation of our kinds that CEL cannot express, called in process.
//   - authorization: what agents, and clients that register one, may do.
//   - agent: builds and runs the agent of a member in pull mode.
//   - interpreter: the interpreter of a control plane or an agent.
//   - preview: what a change would do: the loops of the stages on a view in memory.
//   - backup: backups of a control plane, and control planes made of them.
//   - controlplane: builds and runs the control plane; the one page where every loop is constructed.
//   - memory: how often the process collects garbage.
//
// # tools: imported by cmd and tests only
//
//   - playground: real API servers with simulated nodes, for the demo, tests and benchmarks.
//   - cli: commands and printers; cli/trial and cli/members have those that only cmd/flagship links.
//   - bench: measures the pipeline end to end and prints a table; bench/standin has light stand-ins for hundreds of members.
//   - reference: writes docs/reference, and the manual pages and completions of a release.
//   - suite: runs the tests of this repository, servers after compilers, and says what they cost.
//   - fleettest: helpers for tests, imported by tests only.
//
// house_test.go enforces which package may import which.
package internal
