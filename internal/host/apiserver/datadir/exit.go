package datadir

// Exit codes of a process that cannot use its data.
const (
	// ExitUnwritable is that of a file system that is full, or takes no writes for another reason. What was stored is intact.
	ExitUnwritable = 3
	// ExitDamaged is that of data that is damaged, of keys that are missing, and of every other failure of the embedded etcd.
	ExitDamaged = 4
)
