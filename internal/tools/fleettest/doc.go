// Package fleettest is the vocabulary of tests that need a control plane with members: a fleet to run against, builders
// for objects, and expectations that wait on watches instead of sleeping.
//
//	var shared = fleettest.Shared{Options: fleettest.Options{Members: 2}}
//
//	func TestMain(m *testing.M) { shared.Main(m) }
//
//	func TestDeploymentArrives(t *testing.T) {
//		fleet := shared.Start(t)
//		ns := fleet.Namespace(t)
//		deployment := fleettest.Deployment(ns, "nginx", 2)
//		fleettest.Create(t, fleet.Hub, deployment, fleettest.Policy(ns, "nginx", fleettest.To("member1"), deployment))
//		fleettest.ExpectEventually(t, fleet.Member("member1"), deployment, fleettest.Available)
//	}
//
// The fleet is the built binary, run as a person would run it: `flagship up` in a temporary directory. Nothing here links
// the API server, so a package's tests build in seconds. A package's tests share one fleet, which starts when the first
// test uses it; each test has a namespace of its own. A test that breaks the fleet on purpose starts its own.
//
// FLAGSHIP_BINARY names the binary to run; without it one is built from the sources around the test.
package fleettest
