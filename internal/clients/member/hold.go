package member

// Hold is what must not be done in a member until a person allows it. Nothing is held in the zero Hold.
type Hold struct {
	// Create is about objects that the member lacks, Change about those that differ, Delete about those that are to go.
	Create, Change, Delete bool
}

// HoldEverything is the Hold of a member to which nothing is written.
var HoldEverything = Hold{Create: true, Change: true, Delete: true}
