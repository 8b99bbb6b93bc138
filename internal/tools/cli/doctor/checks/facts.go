package checks

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Read is what was read, or why it could not be.
type Read[T any] struct {
	Value T
	Err   error
}

// Facts are what the checks judge.
type Facts struct {
	// Now is the time of the machine on which the command runs.
	Now time.Time
	// Patience is how long a deletion, a certificate request of an agent, or an object without what it belongs to is no trouble.
	Patience time.Duration
	// Ready has the lines of /readyz about what is not ready; none if the control plane is ready.
	Ready Read[[]string]
	// Kubernetes is the version that the control plane serves.
	Kubernetes Read[string]
	// HubTime is the time of the control plane.
	HubTime      Read[time.Time]
	Certificates Read[[]Certificate]
	Metrics      Read[Metrics]
	Clusters     Read[[]clusterv1alpha1.Cluster]
	// Members has an entry for each Cluster that was connected to, by name.
	Members map[string]Member
	// Requests are the CertificateSigningRequests of agents that are not signed.
	Requests Read[[]Request]
	// Agents are what the agents of Clusters in Pull mode report, by the name of the Cluster.
	Agents Read[map[string]Agent]
	// Bindings, Works and Namespaces are those of the whole control plane.
	Bindings, Works Read[[]Object]
	Namespaces      Read[[]Object]
	// Templates has the templates of bindings and whether they exist. Those of kinds that could not be read are missing, and Err has why.
	Templates Read[map[Template]bool]
	// Orphans are the objects in members that have no Work.
	Orphans Read[[]Orphans]
	// Backups is when each backup in a directory was made. Nil if no directory was named: then the metric counts.
	Backups *Read[[]time.Time]
	// BackupAge is the age above which the newest backup is too old.
	BackupAge time.Duration
}

// Certificate is one that the control plane or the caller presents.
type Certificate struct {
	// Of is what it is the certificate of.
	Of      string
	Expires time.Time
}

// Member is what was found through the proxy of a Cluster, as the caller.
type Member struct {
	// Answer is nil if the API server of the member is ready.
	Answer error
	// Denied are the rights that the account of the control plane lacks in the member.
	Denied Read[[]string]
}

// Agent is what the agent of a member reports.
type Agent struct {
	// Version is that of the program; "" if it reports none.
	Version string
	// Expires is when its certificate expires; zero if it reports none.
	Expires time.Time
}

// Request is a CertificateSigningRequest of an agent.
type Request struct {
	Name, Cluster string
	Created       time.Time
	// Denied is set if it was denied or could not be signed; otherwise it waits.
	Denied bool
}

// Template names an object for which a binding was made.
type Template struct {
	APIVersion, Kind, Namespace, Name string
}

// Object is a binding, a Work or a namespace.
type Object struct {
	Kind, Namespace, Name string
	Created               time.Time
	// Deleted is when its deletion was requested; zero if it was not.
	Deleted    time.Time
	Finalizers []string
	Conditions []metav1.Condition
	// Binding is the binding of a Work, "namespace/name"; "" if it has none.
	Binding string
	// Template is that of a binding.
	Template Template
}

// String is such as "Work karmada-es-m1/web".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Orphans are the objects of one member that have no Work.
type Orphans struct {
	Cluster string
	Count   int
	// Err is why the member could not be searched.
	Err string
}

// Metrics are samples by the name of the metric.
type Metrics map[string][]Sample

// Sample is one value of a metric.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// one returns the value of a metric without labels.
func (m Metrics) one(name string) (value float64, ok bool) {
	if samples := m[name]; len(samples) > 0 {
		return samples[0].Value, true
	}
	return 0, false
}
