// Package imports turns the recorded exports of all members into imports: a ServiceImport, a derived Service and EndpointSlices in each
// member that has the namespace, and the same three on the control plane, for readers.
package imports
