package bounds

import (
	"fmt"
	"time"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	eitherWay   = "member, by its API server or its agent"
	registering = "client with a bootstrap token"
	tenant      = "tenant"
	interpreter = "interpreter webhook"
)

const (
	countsAs       = "What is beyond it counts as the bound."
	refused        = "The write is refused."
	reportsTests   = "internal/knowledge/reports "
	admissionTests = "internal/host/admission/agents "
)

// What members report. Each is bounded where it is written, where a report of an agent is admitted, and where reports are combined.
var (
	Status = Row{
		Party: eitherWay, Sends: "the status of an object", Piece: Limit{"the status of an object", MaxStatusBytes, 0},
		Beyond: "The numbers, short texts and beginnings of lists that fit are kept; the field `flagship.io/TooLarge` has the former size, and an event " +
			"`AggregateStatusFailed` on the template names the cluster.",
		Test: reportsTests + "TestCutKeepsWhatIsSmall",
	}
	Statuses = Row{
		Party: eitherWay, Sends: "the statuses in one binding", Bound: fmt.Sprintf("%s, and %s of messages", size(MaxItemsBytes), size(MaxItemMessagesBytes)),
		Beyond: "The largest are cut further; a thousand clusters fit with 786 bytes each.", Test: reportsTests + "TestABindingOfAThousandClustersCanBeWritten",
	}
	TemplateStatus = Row{
		Party: eitherWay, Sends: "what the status of a template adds up", Bound: size(MaxTemplateStatusBytes),
		Beyond: "As that of an object, without the field.", Test: reportsTests + "TestNumbersAndTemplates",
	}
	WorkStatus = Row{
		Party: eitherWay, Sends: "the status of a Work",
		Bound:  fmt.Sprintf("%d conditions with messages of %s; with its manifests what etcd takes", MaxWorkConditions, size(MessageBytes)),
		Beyond: "Objects at the end are left out.", Test: reportsTests + "TestWork",
	}
	ClusterStatus = Row{
		Party: eitherWay, Sends: "the status of a Cluster",
		Bound: fmt.Sprintf("%d conditions; %s of kinds; %d resources up to 10^18; %d grades; %s nodes", MaxClusterConditions, size(MaxAPIBytes), MaxResources, MaxGrades,
			thousands(MaxNodes)),
		Beyond: "Kinds that are left out show in `CompleteAPIEnablements`; numbers count as the bound.", Test: reportsTests + "TestCluster",
	}
	Counters = Row{
		Party: eitherWay, Sends: "counters", Bound: fmt.Sprintf("not negative, at most %s in sum; no more ready replicas than replicas", thousands(MaxReplicas)),
		Beyond: countsAs, Test: "internal/knowledge/interpret/builtin/aggregate TestNoReportKeepsTheOthersFromTheTemplate",
	}
	Followed = Row{
		Party: eitherWay, Sends: "replicas that a template follows",
		Bound:  fmt.Sprintf("what its HorizontalPodAutoscalers allow for each cluster; %s for a cluster without any", thousands(MaxFollowed)),
		Beyond: countsAs + " Without an autoscaler the template stays, with an event.", Test: "internal/features/autoscaled TestSyncer",
	}
	Lists = Row{
		Party: eitherWay, Sends: "lists in a template's status", Bound: fmt.Sprintf("for each cluster %d addresses, %d containers, %d active Jobs, %d disrupted pods and %d versions",
			MaxEntryPoints, MaxContainers, MaxActiveJobs, MaxDisruptedPods, MaxStoredVersions),
		Beyond: "The rest is left out.", Test: "internal/knowledge/interpret/builtin/aggregate TestLongListsEnd",
	}
	Times = Row{
		Party: eitherWay, Sends: "times", Bound: fmt.Sprintf("%.0f h ahead", MaxAhead.Hours()),
		Beyond: "They do not count; conditions have the time of the control plane.", Test: reportsTests + "TestNumbersAndTemplates",
	}
	Unreadable = Row{
		Party: eitherWay, Sends: "a status that cannot be read", Bound: "none of it is used",
		Beyond: "It does not count, and `StatusCurrent` of the template names the cluster.", Test: "internal/knowledge/interpret/builtin/aggregate TestAnUnreadableReportIsNamed",
	}
	Records = Row{
		Party: eitherWay, Sends: "records of exports, EndpointSlices and warnings",
		Bound: fmt.Sprintf("%s records and %s of one cluster are stored; they count for no namespace", thousands(MaxRecords), size(MaxRecordBytes)),
		Beyond: "Refused, and tried again. `ResourcesReadable` of the Cluster is `False` with the reason `TooMany`, `Ready` of the ServiceExport has what is missing, and " +
			"`EndpointSliceDispatched` of a MultiClusterService names the cluster.",
		Test: "internal/features/limit TestRecordsCountForTheirCluster",
	}
)

// What agents write besides.
var (
	RecordedSlice = Row{
		Party: memberAgent, Sends: "the record of an EndpointSlice", Piece: Limit{"an EndpointSlice", MaxSliceBytes, 0},
		Bound:  fmt.Sprintf("%s endpoints with %d addresses, and %d ports; exactly the name, labels, annotations and fields of its collector", thousands(MaxEndpoints), MaxAddresses, MaxPorts),
		Beyond: refused, Test: admissionTests + "TestRecordsAreExactlyThoseOfCollectors",
	}
	RecordedExport = Row{
		Party: memberAgent, Sends: "the record of an export", Piece: Limit{"an export", MaxExportBytes, 0}, Bound: "the same for its Service; exactly the fields of its collector",
		Beyond: refused, Test: admissionTests + "TestRecordsAreExactlyThoseOfCollectors",
	}
	RecordedEvents = Row{
		Party: memberAgent, Sends: "the record of warnings", Bound: fmt.Sprintf("one, with %d Events of %s", workv1alpha1.MaxRecordedEvents, size(workv1alpha1.MaxRecordedEventBytes)),
		Beyond: refused, Test: admissionTests + "TestAgentsWriteOnlyWhatIsTheirs",
	}
	Works = Row{
		Party: memberAgent, Sends: "other Works", Bound: "its own finalizer and the status; no labels, annotations, owners or manifests",
		Beyond: refused, Test: admissionTests + "TestAnAgentChangesNoMetadataOfWorks",
	}
	Metadata = Row{
		Party: memberAgent, Sends: "metadata of an object", Bound: size(MaxMetadataBytes) + " of labels, annotations and managed fields; no owner but its Cluster, no finalizer of others",
		Beyond: refused, Test: admissionTests + "TestWhatAnAgentWritesIsBounded",
	}
	AgentEvent = Row{
		Party: memberAgent, Sends: "an Event", Piece: Limit{"an Event", MaxEventBytes, 0}, Bound: "about its own Cluster, Lease and Works",
		Beyond: refused, Test: admissionTests + "TestWhatAnAgentWritesIsBounded",
	}
	AgentEvents = Row{
		Party: memberAgent, Sends: "Events", Bound: fmt.Sprintf("%d a second, %d at once", AgentEventsPerSecond, AgentEventsBurst),
		Beyond: "Refused with 429; other agents have their own.", Test: "internal/host/apiserver/access TestAgentsShareNoLimitOfEvents",
	}
	Lease = Row{
		Party: memberAgent, Sends: "its two Leases", Piece: Limit{"a Lease", MaxLeaseBytes, 0}, Beyond: refused, Test: admissionTests + "TestWhatAnAgentWritesIsBounded",
	}
	Capacity = Row{
		Party: memberAgent, Sends: "the ClusterCapacity of its Cluster", Piece: Limit{"a ClusterCapacity", MaxCapacityBytes, 0},
		Beyond: refused, Test: admissionTests + "TestWhatAnAgentWritesIsBounded",
	}
	CertificateRequest = Row{
		Party: memberAgent + ", and " + registering, Sends: "requests of certificates", Piece: Limit{"a request", MaxRequestBytes, 0},
		Bound:  fmt.Sprintf("%d a minute, %d at once; no owners and no finalizers", time.Minute/RequestPeriod, RequestBurst),
		Beyond: "Refused, with 429 if there are too many.", Test: admissionTests + "TestWhatAnAgentWritesIsBounded",
	}
	Registered = Row{
		Party: registering, Sends: "the Cluster that it registers", Piece: Limit{"a Cluster", MaxClusterBytes, 0},
		Bound:  "one, of the name that the token is for, in Pull mode, without an address, credentials, taints and owners",
		Beyond: refused, Test: admissionTests + "TestARegisteredClusterHasABound",
	}
)

// What tenants have stored and answered, and what the webhooks of operators answer.
var (
	Stored = Row{
		Party: tenant, Sends: "objects of a namespace, Works of them included",
		Bound: fmt.Sprintf("%s objects and %s by default; an annotation of the Namespace sets others", thousands(DefaultObjects), size(DefaultBytes)),
		Beyond: "Refused with 403. Works are neither made nor enlarged, and `Rendered` of the binding is `False` with the reason `NamespaceLimitReached` " +
			"([below](#limits-per-namespace)).",
		Test: "test/attacks TestATenantWithoutEndIsRefused",
	}
	UserEvents = Row{
		Party: tenant, Sends: "Events",
		Bound:  fmt.Sprintf("%d a second and %d at once in a namespace; %d and %d of a user", EventsPerSecond, EventsBurst, UserEventsPerSecond, UserEventsBurst),
		Beyond: "Refused with 429.", Test: "internal/host/apiserver/access TestEventRateLimit",
	}
	Manifest = Row{
		Party: tenant, Sends: "an object that goes to members", Bound: thousands(workv1alpha1.MaxManifestBytes) + " bytes",
		Beyond: "`Rendered` of the binding is `False` with the reason `ManifestTooLarge`.", Test: "test/attacks TestAManifestOverTheLimitHasOneEvent",
	}
	Edits = Row{
		Party: tenant, Sends: "overrides of one object for one cluster",
		Bound: fmt.Sprintf("%s steps, %s bytes of values, %s values in a YAML document, %s bytes of a document with its aliases written out", thousands(MaxSteps),
			thousands(MaxWrittenBytes), thousands(MaxYAMLValues), thousands(workv1alpha1.MaxManifestBytes)),
		Beyond: "`Rendered` of the binding is `False` with the reason `OverrideFailed`; the copy stays.", Test: "internal/knowledge/override TestEditsHaveABudget",
	}
	Questions = Row{
		Party: tenant, Sends: "questions, such as Explanations",
		Bound:  fmt.Sprintf("%d of a kind at a time, and %d of all; %d Preview, and %d of all; the last is for operators", QuestionsOfEach, QuestionsOfAll, PreviewsOfEach, PreviewsOfAll),
		Beyond: "Refused with 429.", Test: "internal/host/apiserver/questions/slots TestTheServiceAccountsOfANamespaceAreOneTenant",
	}
	Searches = Row{
		Party: tenant, Sends: "requests of the search API", Bound: fmt.Sprintf("%d answers of members at a time, and %d of all", AnswersOfEach, AnswersOfAll),
		Beyond: "Refused with 429; watches wait.", Test: "internal/host/apiserver/search TestAUserHasABudget",
	}
	WebhookAnswer = Row{
		Party: interpreter, Sends: "an answer", Bound: fmt.Sprintf("%s; a patch of %s operations; 30 s; no redirect is followed", size(MaxResponseBytes), thousands(MaxPatchOperations)),
		Beyond: "The call fails, as one that is not answered.", Test: "internal/knowledge/interpret/webhook TestServersThatMisbehave",
	}
)

// parties are the rows of this file, in the order of docs/security.md.
func parties() []Row {
	return []Row{
		Status, Statuses, TemplateStatus, WorkStatus, ClusterStatus, Counters, Followed, Lists, Times, Unreadable, Records,
		RecordedSlice, RecordedExport, RecordedEvents, Works, Metadata, AgentEvent, AgentEvents, Lease, Capacity, CertificateRequest, Registered,
		Stored, UserEvents, Manifest, Edits, Questions, Searches, WebhookAnswer,
	}
}
