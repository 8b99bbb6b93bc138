// Package internal is the map of Flagship: a package a room, in the order in which an object passes through them.
//
// A user's object stands on the hub shore (a template); its copies stand on the far shore (members). Four verbs carry it
// over, two carry the news back. They meet only through objects in the hub's API server.
//
//	template → propagate → schedule → render → apply → member
//	template ← aggregate ←──────────────────── observe ← member
//
// # Shores
//
//   - template: finds, watches, reads and writes back user objects of any kind on the hub.
//   - member: one live connection per cluster: clients, caches, health, circuit breaker.
//
// # Verbs
//
//   - propagate: matches templates to policies, claims them, writes the binding.
//   - schedule: chooses clusters and divides replicas.
//   - render: turns one binding into one Work per target.
//   - apply: makes a member match its Works.
//   - observe: reflects status, health and drift of a member into Works, and its state into Cluster status.
//   - aggregate: folds all Works into the binding and back into the template's own status.
//
// # Advisers: pure knowledge that verbs consult
//
//   - interpret: what a kind means: replicas, requests, health, status, dependencies, retention.
//   - override: per-cluster edits of a rendered object.
//   - capacity: how much fits where.
//   - event: typed event values, their reasons, the deduplicating recorder.
//   - brake: whether too many objects of a member are to be removed or scaled down at once.
//   - turns: who is next in a queue, so that a crowded namespace does not hold up others.
//   - controlloop: reconciles with a deadline, a panic as an error, metrics, and what /readyz says of a loop.
//
// # Neighbours
//
//   - version: what was built.
//   - dial: the one way to connect to a member's API server: its proxy, its trust, which addresses are allowed, who answers.
//   - impersonate: who acts in a member for a user of the control plane who uses its proxy.
//   - report: what apply and observe say about one Work in one moment, as one write.
//   - claim: resource claims of v1alpha2: what they become in a member and what their copies add up to.
//   - schema: definitions of kinds across the fleet: their order, and which of their changes do harm.
//   - service: multi-cluster services: endpoints collected from providers and dispatched to consumers.
//   - restore: what members have that a control plane restored from a backup does not know.
//   - limit: how much may be stored for each namespace.
//   - enroll: joining and leaving: credentials and their rotation, execution namespaces, cleanup.
//
// # House
//
//   - apiserver: the embedded API server, its storage, certificates and built-in controllers.
//   - admission: defaults and validation of our kinds that CEL cannot say, called in process.
//   - hub: builds and runs the control plane; the one page where every loop is constructed.
//   - playground: real API servers with simulated nodes, for the demo, tests and benchmarks.
//   - cli: commands and printers.
//   - bench: measures the pipeline end to end and prints a table.
//   - fleettest: test vocabulary, imported by tests only.
//
// Which room may import which is a law, and house_test.go enforces it.
package internal
