package leader

// NewTermForTest is New with a lock.
var NewTermForTest = newTerm
