package reports

// Bounds of what is stored of reports. etcd takes 1.5 MiB for an object; a larger one cannot be written at all, by its owner either.
const (
	// MaxStatusBytes bounds the status of one object in a member. The largest of built-in kinds, that of a Pod with many containers,
	// has some 10 kB.
	MaxStatusBytes = 32 << 10
	// MaxItemsBytes bounds the statuses of all copies in one binding: half of what etcd takes. The rest is for its placement and for a
	// thousand targets. Each of a thousand clusters has 786 bytes, which a Deployment does not need.
	MaxItemsBytes = 768 << 10
	// MaxItemMessagesBytes bounds the messages of all copies in one binding, beside their statuses.
	MaxItemMessagesBytes = 128 << 10
	// MaxTemplateStatusBytes bounds what the reports of all members add up to in the status of a template, which may have a megabyte
	// besides.
	MaxTemplateStatusBytes = 256 << 10
	// MaxMessageBytes bounds the message of a condition: an API server's own refusals have a few hundred bytes for each field.
	MaxMessageBytes = 2 << 10
	// MaxReasonBytes bounds the reason of a condition, and the values of other short texts.
	MaxReasonBytes = 256
	// MaxWorkConditions bounds the conditions of a Work: there are six types.
	MaxWorkConditions = 8
	// MaxWorkStatusBytes bounds the status of a Work with many manifests, and MinWorkStatusBytes is what it has beside manifests of the
	// greatest size.
	MaxWorkStatusBytes, MinWorkStatusBytes = 512 << 10, 48 << 10
	// maxObjectBytes is what a Work may have: what etcd takes, less 64 KiB for metadata, conditions, and the names of fields.
	maxObjectBytes = 1536<<10 - 64<<10
)

// Bounds of the status of a Cluster.
const (
	// MaxClusterConditions bounds the conditions of a Cluster: there are ten types.
	MaxClusterConditions = 32
	// MaxAPIBytes bounds the kinds that a Cluster serves: a thousand definitions have 100 kB.
	MaxAPIBytes = 512 << 10
	// MaxNameBytes bounds names of groups, kinds and resources, and the version: the longest valid name has 253 bytes.
	MaxNameBytes = 253
	// MaxResources bounds the resources of each list of a summary.
	MaxResources = 256
	// MaxGrades bounds the grades of resource models that are counted: Karmada has nine.
	MaxGrades = 64
	// MaxNodes bounds a number of nodes: four times what is read of a member in Push mode.
	MaxNodes = 80_000
	// MaxQuantity bounds an amount of a resource: an exabyte. The exact value of 1e2147483647 takes gigabytes.
	MaxQuantity = 1e18
)

// Bounds of the counters that a status adds up.
const (
	// MaxReplicas bounds each counter of one report, and their sum: the fields of the API have 32 bits.
	MaxReplicas = 1<<31 - 1
	// MaxEntryPoints bounds the addresses of one load balancer. Providers assign one to three.
	MaxEntryPoints = 32
	// MaxContainers bounds the containers that a Pod in one cluster lists. Members add some to those of the template.
	MaxContainers = 64
	// MaxActiveJobs bounds the Jobs that a CronJob in one cluster lists as active.
	MaxActiveJobs = 64
	// MaxDisruptedPods bounds the pods that a PodDisruptionBudget in one cluster lists as being evicted.
	MaxDisruptedPods = 256
	// MaxStoredVersions bounds the versions that a definition in one cluster lists as stored.
	MaxStoredVersions = 32
)
