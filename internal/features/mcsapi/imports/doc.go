// Package imports turns the recorded exports of all members into imports: a ServiceImport, a derived Service and EndpointSlices in each
// member that has the namespace, and a ServiceImport on the control plane.
package imports
