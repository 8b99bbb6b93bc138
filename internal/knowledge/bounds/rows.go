package bounds

import (
	"fmt"
	"strings"
	"time"
)

// Row is one thing that a party which is not trusted sends, and its bound. Rows lists all of them. To add one, write a variable of this type,
// add it to Rows, use its numbers where the bytes are read, name a test, and run `go test ./internal/knowledge/bounds`, which prints the
// lines that docs/security.md lacks.
type Row struct {
	// Party sends it.
	Party string
	// Sends is what.
	Sends string
	// Piece bounds one answer, event or text. Piece.What is that of errors. Zero: there is no bound of its own.
	Piece Limit
	// Kept bounds what is kept in memory of what one such party sends. Zero: nothing is kept.
	Kept Amount
	// Bound is what the numbers do not say.
	Bound string
	// Beyond is what happens beyond the bound.
	Beyond string
	// Test shows it: a folder of the repository and the name of a test in it.
	Test string
}

// The parties.
const (
	memberServer = "API server of a member"
	memberAgent  = "agent of a member"
)

const (
	// RequestTime is how long a member may take for a whole answer.
	RequestTime = 10 * time.Second
	// HeaderBytes bounds the headers of an answer.
	HeaderBytes = 256 << 10
	// ProbeBytes is how much is read of the answer to whether a member is ready.
	ProbeBytes = 4 << 10
	// PageObjects is how many objects a page of a list is requested with.
	PageObjects = 500
	// MostPages is how many pages a list may have: one of all pods, in pages of a tenth.
	MostPages = 6000
	// EmptyPages is how many pages of a list may follow each other without an object.
	EmptyPages = 100
	// TokenBytes bounds the token of the next page.
	TokenBytes = 4 << 10
	// GroupVersions is how many versions of groups a member may serve: each is a request.
	GroupVersions = 2000
	// NameBytes bounds a name, and VersionBytes a resource version.
	NameBytes, VersionBytes = 253, 128
	// OfWorks is how many times what its Works order a member may have kept, and PerObject what is added for each object: its status and
	// the fields that the member sets.
	OfWorks, PerObject = 4, 16 << 10
)

// What the API server of a member sends in answers.
var (
	// Object is the answer to a request about one object.
	Object = Row{
		Party: memberServer, Sends: "the answer to a request about one object",
		Piece: Limit{"the answer about an object", 4 << 20, 200_000}, Bound: "not compressed; kind, namespace and name are those requested",
		Beyond: "The request fails, and the condition of the Work says so.", Test: "internal/clients/member TestAnAnswerHasTheBoundOfItsRequest",
	}
	// Page is a page of a list.
	Page = Row{
		Party: memberServer, Sends: "a page of a list",
		Piece:  Limit{"a page of a list", 8 << 20, 300_000},
		Bound:  fmt.Sprintf("decompressed; %d objects are requested; at most %d pages, %d after each other without objects, and tokens of %s", PageObjects, MostPages, EmptyPages, size(TokenBytes)),
		Beyond: "Watches request a tenth of the objects in a page, down to one. Other lists fail.", Test: "internal/clients/member TestAnAnswerHasTheBoundOfItsRequest",
	}
	// Discovery is a document about what is served.
	Discovery = Row{
		Party: memberServer, Sends: "a document of discovery",
		Piece:  Limit{"a document of discovery", 16 << 20, 500_000},
		Beyond: "`CompleteAPIEnablements` of the Cluster is not `True`; what was served last stays.", Test: "internal/clients/member TestAnAnswerHasTheBoundOfItsRequest",
	}
	// Document is any other document.
	Document = Row{
		Party: memberServer, Sends: "its version, or the index of its OpenAPI documents (the documents are not read)",
		Piece:  Limit{"the document", 4 << 20, 200_000},
		Beyond: "The request fails, as for a member that does not answer.", Test: "internal/clients/member TestAnAnswerHasTheBoundOfItsRequest",
	}
	// Failure is the answer that a request failed.
	Failure = Row{
		Party: memberServer, Sends: "an error",
		Piece:  Limit{"the answer that the request failed", 256 << 10, 20_000},
		Bound:  fmt.Sprintf("%s of its message, and of each cause", size(FailureTextBytes)),
		Beyond: "The text is cut, and conditions have 2 KiB of it; of a larger answer only the code is used.", Test: "internal/clients/member TestTheTextOfAnErrorIsCut",
	}
	// Headers are those of an answer.
	Headers = Row{
		Party: memberServer, Sends: "headers, warnings among them", Piece: Limit{"the headers of an answer", HeaderBytes, 0},
		Bound: "warnings are not read; a redirect is not followed", Beyond: "The request fails.", Test: "internal/clients/member TestHeadersHaveABound",
	}
	// Slow is an answer that takes long.
	Slow = Row{
		Party: memberServer, Sends: "an answer, slowly",
		Bound:  fmt.Sprintf("%s for all of it; a watch begins within %s, and ends %s after its own timeout of 10 minutes at most", RequestTime, RequestTime, RequestTime),
		Beyond: "The request fails or the watch ends; three failures make the member unavailable.", Test: "internal/clients/member TestASlowAnswerHasAnEnd",
	}
	// Fast are answers and events without end.
	Fast = Row{
		Party: memberServer, Sends: "answers and events, bookmarks among them, without end",
		Bound:  fmt.Sprintf("%s a second after the first %s; each event counts %s more", size(BytesPerSecond), size(BytesAtOnce), size(pieceCost)),
		Beyond: "Reading waits, and the connection with it.", Test: "internal/knowledge/bounds TestAFloodWaits",
	}
	// Readiness is the answer to a probe.
	Readiness = Row{
		Party: memberServer, Sends: "whether it is ready", Piece: Limit{"the answer of a probe", ProbeBytes, 0},
		Beyond: "The rest is not read; the message of `Ready` is cut.", Test: "internal/clients/member TestTheTextOfAnErrorIsCut",
	}
	// Identity is the namespace that identifies a member.
	Identity = Row{
		Party: memberServer, Sends: "the namespace that identifies it", Piece: Limit{"the namespace kube-system", 1 << 20, 0},
		Beyond: "The member is not accessed.", Test: "internal/clients/dial TestAnIdentityHasABound",
	}
	// Event is an event of a watch.
	Event = Row{
		Party: memberServer, Sends: "an event of a watch",
		Piece: Limit{"an event of a watch", 4 << 20, 200_000},
		Bound: fmt.Sprintf("not compressed; names of %d bytes, versions of %d", NameBytes, VersionBytes),
		Beyond: "The watch ends, and begins again after a pause of up to 30 s. While that goes on, `ResourcesReadable` of the Cluster is `False` with the reason " +
			"`TooMany`.",
		Test: "internal/clients/member/memberwatch TestAnEventHasABound",
	}
)

// beyondKept is what happens beyond what may be kept.
const beyondKept = "The watch ends, and what it showed stays; it begins again after a pause of up to 30 s. `ResourcesReadable` is `False` with the reason `TooMany`."

const keptTest = "internal/clients/member/memberwatch TestAMemberThatShowsTooMuch"

// PodsWaiting is what may be kept of pods that no node of the member can run, and PodBytes what is added for each that has: a pod that is kept
// takes some 300 bytes.
var PodsWaiting = Amount{50_000, 16 << 20}

// PodBytes: see PodsWaiting.
const PodBytes = 1 << 10

// What is kept of what watches of a member show.
var (
	// Managed are the objects with the managed label.
	Managed = Row{
		Party: memberServer, Sends: "managed objects", Kept: Amount{1000, 16 << 20},
		Bound: fmt.Sprintf("and %d times what the Works of the cluster order, with %s for each of their objects; compressed, all kinds together; of an object "+
			"whose Work is not one of this cluster only names, times and the uid", OfWorks, size(PerObject)),
		Beyond: beyondKept, Test: "internal/clients/member TestManagedObjectsHaveABound",
	}
	// Nodes are all nodes.
	Nodes = Row{Party: memberServer, Sends: "nodes", Kept: Amount{20_000, 128 << 20}, Beyond: beyondKept + " The Cluster has no summary of its resources then.", Test: keptTest}
	// Quotas are the ResourceQuotas of all namespaces.
	Quotas = Row{Party: memberServer, Sends: "ResourceQuotas", Kept: Amount{10_000, 8 << 20}, Beyond: beyondKept, Test: keptTest}
	// Pods are all pods that have not finished.
	Pods = Row{Party: memberServer, Sends: "pods", Kept: Amount{300_000, 256 << 20},
		Bound:  fmt.Sprintf("no more than %s objects and %s beyond those that its nodes can run, each of which has %s", thousands(PodsWaiting.Objects), size(PodsWaiting.Bytes), size(PodBytes)),
		Beyond: beyondKept + " The Cluster has no summary of its resources then.", Test: keptTest}
	// DeviceClasses are those of both versions.
	DeviceClasses = Row{Party: memberServer, Sends: "classes of devices", Kept: Amount{1000, 32 << 20}, Beyond: beyondKept, Test: keptTest}
	// ResourceSlices are the devices.
	ResourceSlices = Row{Party: memberServer, Sends: "slices of devices", Kept: Amount{20_000, 64 << 20}, Beyond: beyondKept, Test: keptTest}
	// ResourceClaims are the claims of devices.
	ResourceClaims = Row{Party: memberServer, Sends: "claims of devices", Kept: Amount{100_000, 64 << 20}, Beyond: beyondKept, Test: keptTest}
	// Exports are ServiceExports.
	Exports = Row{Party: memberServer, Sends: "ServiceExports", Kept: Amount{2000, 8 << 20}, Beyond: beyondKept, Test: keptTest}
	// Services are those in namespaces with exports.
	Services = Row{Party: memberServer, Sends: "Services in namespaces with exports", Kept: Amount{10_000, 32 << 20}, Beyond: beyondKept, Test: keptTest}
	// EndpointSlices are those of exported Services and of MultiClusterServices.
	EndpointSlices = Row{Party: memberServer, Sends: "EndpointSlices of exported Services", Kept: Amount{10_000, 64 << 20}, Beyond: beyondKept, Test: keptTest}
	// Namespaces are the names of all namespaces.
	Namespaces = Row{Party: memberServer, Sends: "names of namespaces", Kept: Amount{20_000, 8 << 20}, Beyond: beyondKept, Test: keptTest}
	// Events are Warnings about objects of Works.
	Events = Row{
		Party: memberServer, Sends: "Warnings about propagated objects", Piece: Limit{"a text of a Warning", 1 << 10, 0}, Kept: Amount{2048, 16 << 20},
		Bound: "only in namespaces to which a Work sends objects", Beyond: "Texts are cut; what does not fit is dropped and counted by `flagship_member_events_total`.",
		Test: "internal/features/memberevents TestAnEventOfAMemberIsCut",
	}
)

// What becomes part of an object of the control plane.
var (
	// Kinds are those that a member serves, in the status of its Cluster.
	Kinds = Row{
		Party: memberServer, Sends: "kinds that it serves", Kept: Amount{10_000, 512 << 10},
		Bound:  fmt.Sprintf("as they are in `status.apiEnablements`; at most %d versions of groups", GroupVersions),
		Beyond: "`CompleteAPIEnablements` is not `True`; what was served last stays.", Test: "internal/features/clusterstatus TestWhatAMemberServesHasABound",
	}
	// ResourceNames are the resources of the nodes of a member, in the status of its Cluster.
	ResourceNames = Row{
		Party: memberServer, Sends: "names of resources of nodes", Kept: Amount{256, 64 << 10},
		Beyond: "The Cluster has no summary of its resources, and `ResourcesReadable` is `False` with the reason `TooMany`.",
		Test:   "internal/features/clusterstatus TestWhatAMemberServesHasABound",
	}
)

// What is read of a member outside the loops.
var (
	// Searched is a list of the search API.
	Searched = Row{
		Party: memberServer, Sends: "a list to the search API", Piece: Limit{"the list of a member", 4 << 20, 1_000_000},
		Bound: "of 8 members at a time", Beyond: "The list has a warning that the member is missing.", Test: "internal/host/apiserver/search/merge TestAListHasABound",
	}
	// DriftAnswer is what the agent of a member answers about drift.
	DriftAnswer = Row{
		Party: memberAgent, Sends: "its record of drift", Piece: Limit{"the record of drift of an agent", 16 << 20, 1_000_000},
		Beyond: "A DriftReport says that the cluster is missing.", Test: "internal/host/controlplane/remote TestARecordOfDriftHasABound",
	}
)

// Rows are all bounds, in the order of docs/security.md.
func Rows() []Row {
	return append([]Row{
		Object, Page, Discovery, Document, Failure, Headers, Slow, Fast, Readiness, Identity, Event,
		Managed, Nodes, Quotas, Pods, DeviceClasses, ResourceSlices, ResourceClaims, Exports, Services, EndpointSlices, Namespaces, Events,
		Kinds, ResourceNames,
		Searched,
		DriftAnswer,
	}, parties()...)
}

// Markdown is the table of all bounds.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| who sends | what | bound | beyond it |\n|---|---|---|---|\n")
	for _, row := range Rows() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.Party, row.Sends, row.bound(), row.Beyond)
	}
	return b.String()
}

// bound is the bound of a row in words.
func (r Row) bound() string {
	var parts []string
	if r.Piece.Bytes > 0 {
		text := size(r.Piece.Bytes)
		if r.Piece.Values > 0 {
			text += fmt.Sprintf(" and %s values", thousands(r.Piece.Values))
		}
		parts = append(parts, text)
	}
	if r.Kept != (Amount{}) {
		parts = append(parts, fmt.Sprintf("%s objects and %s kept", thousands(r.Kept.Objects), size(r.Kept.Bytes)))
	}
	if r.Bound != "" {
		parts = append(parts, r.Bound)
	}
	return strings.Join(parts, "; ")
}

// size is a number of bytes with a unit.
func size(bytes int64) string {
	if bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

// thousands has a comma after each three digits.
func thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
