package bounds

import (
	"time"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

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
	// MaxReasonBytes bounds the reason of a condition, and the values of other short texts.
	MaxReasonBytes = 256
	// MaxWorkConditions bounds the conditions of a Work: there are six types.
	MaxWorkConditions = 8
	// MaxWorkStatusBytes bounds the status of a Work with many manifests, and MinWorkStatusBytes is what it has beside manifests of the
	// greatest size.
	MaxWorkStatusBytes, MinWorkStatusBytes = 512 << 10, 48 << 10
	// MaxWorkBytes is what a Work may have: what etcd takes, less 64 KiB for metadata, conditions, and the names of fields.
	MaxWorkBytes = 1536<<10 - 64<<10
)

// Bounds of the status of a Cluster.
const (
	// MaxClusterConditions bounds the conditions of a Cluster: there are ten types.
	MaxClusterConditions = 32
	// MaxAPIBytes bounds the kinds that a Cluster serves: a thousand definitions have 100 kB.
	MaxAPIBytes = 512 << 10
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

// Bounds of what agents write, in bytes of JSON. They are far above what an agent has to write, and far below what etcd takes: an agent writes
// Events and requests of certificates under any name.
const (
	// MaxMetadataBytes bounds labels, annotations and managed fields of one object.
	MaxMetadataBytes = 8 << 10
	// MaxEventBytes bounds an Event: the recorder of Kubernetes cuts messages at 1 kB.
	MaxEventBytes = 4 << 10
	// MaxLeaseBytes bounds a Lease.
	MaxLeaseBytes = 4 << 10
	// MaxRequestBytes bounds a request of a certificate: one with a key of 8192 bits has 3 kB.
	MaxRequestBytes = 16 << 10
	// MaxClusterBytes bounds a Cluster that a client with a bootstrap token creates.
	MaxClusterBytes = 16 << 10
	// MaxCapacityBytes bounds a ClusterCapacity: a summary of nodes has 100 kB at most.
	MaxCapacityBytes = 512 << 10
	// RequestBurst and RequestPeriod bound requests of certificates, by the name of their author: an agent renews one in months, and
	// requests are deleted after an hour.
	RequestBurst, RequestPeriod = 20, time.Minute
	// AgentEventsPerSecond and AgentEventsBurst bound the Events of one agent: it publishes failures of its Cluster and Works, each once in a
	// while. They are 7,400 in an hour at most, after which an Event is gone.
	AgentEventsPerSecond, AgentEventsBurst = 2, 200
	// MaxSliceBytes bounds an EndpointSlice: one with a thousand endpoints, which is the most, has 200 kB.
	MaxSliceBytes = 256 << 10
	// MaxExportBytes bounds each of an export, which may have labels and annotations for all importing clusters, and its Service.
	MaxExportBytes = 32 << 10
	// MaxEndpoints, MaxAddresses and MaxPorts are the bounds of an API server, which the control plane sends the slice to.
	MaxEndpoints, MaxAddresses, MaxPorts = 1000, 100, 100
	// MaxRecords and MaxRecordBytes bound what is recorded of one member, beside the Works for it: of its Services and EndpointSlices, and its
	// warnings. A thousand exported Services with a hundred endpoints each have 3,000 records and 20 MB.
	MaxRecords, MaxRecordBytes = 5000, 32 << 20
	// MaxFollowed bounds how many replicas a template follows in one cluster, where no autoscaler on the control plane has a bound: a cluster
	// of the size that Kubernetes supports runs some tens of thousands of pods beside those of the system.
	MaxFollowed = 10_000
	// MaxAhead is how far a time in a report may be ahead of this process: what is later is not a time of something that has been. Clocks
	// of members are reported as wrong long before.
	MaxAhead = time.Hour
)

// Bounds of what tenants have stored and answered.
const (
	// DefaultObjects and DefaultBytes are what may be stored for a namespace. The size is an eighth of the default quota of the embedded etcd;
	// 200,000 objects are as large if they have 5 kB each.
	DefaultObjects, DefaultBytes = 200_000, 1 << 30
	// EventsPerSecond and EventsBurst bound the Events that users write in one namespace. They are about 36,000 in the hour for which an Event
	// is stored. UserEventsPerSecond and UserEventsBurst bound those of one user in all namespaces.
	EventsPerSecond, EventsBurst         = 10, 200
	UserEventsPerSecond, UserEventsBurst = 20, 400
	// MaxSteps bounds the edits of one object for one cluster, in steps of about 50 ns: a value that is compared, or some bytes of a document that are
	// parsed. A hundred edits of an object of 100 kB take a hundredth of it.
	MaxSteps = 1 << 24
	// MaxWrittenBytes bounds the values that these edits write into the object.
	MaxWrittenBytes = 2 * workv1alpha1.MaxManifestBytes
	// MaxYAMLValues is how many values a YAML document may have that they edit: each takes 300 bytes of memory meanwhile.
	MaxYAMLValues = 400_000
	// QuestionsOfEach and QuestionsOfAll are how many questions of a kind are answered at a time, by default and for previews, of which one may take
	// a processor for half a minute.
	QuestionsOfEach, QuestionsOfAll = 4, 32
	PreviewsOfEach, PreviewsOfAll   = 1, 4
	// AnswersOfEach and AnswersOfAll are how many answers of members the search API holds at a time. An answer has up to 4 MiB, which a hostile member makes
	// twenty times as large when it is decoded.
	AnswersOfEach, AnswersOfAll = 8, 24
)

// Bounds of what interpreter webhooks answer.
const (
	// MaxResponseBytes is more than any API server accepts of an object.
	MaxResponseBytes = 8 << 20
	// MaxPatchOperations is how many steps a patch may have.
	MaxPatchOperations = 10_000
)
