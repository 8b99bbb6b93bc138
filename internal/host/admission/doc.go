// Package admission is the part of the API that schemas cannot say, called in process by the API server.
//
// In: every object that is about to be written or deleted.
// Out: the object completed, warnings, or the reasons why it is refused.
// Owns: the permanent-id labels of our kinds; that policies carry their finalizer; defaults that depend on other fields.
// Never: reads anything but the request, so its answer is the same every time and costs no round trip; where the instances
// of a definition are, is passed in by the host, which has it in memory, but for whether one of them still belongs there. So is
// what is stored for a namespace. Only a binding that a user writes by hand, a policy of a namespace, and a change of the limits of a
// namespace are exceptions: the API server's authorizer decides whether the user has the right.
package admission
