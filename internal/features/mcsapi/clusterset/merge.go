package clusterset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
)

// Export is a Service as one cluster exports it.
type Export struct {
	// Cluster is where it is.
	Cluster string
	// Recorded is when the control plane first stored its record, by the clock of the control plane.
	Recorded time.Time
	// Labels and Annotations are those for the imports.
	Labels, Annotations map[string]string
	// Service is the spec of the Service.
	Service corev1.ServiceSpec
}

// Service is what several exports of one service add up to.
type Service struct {
	// Spec of the imports, without addresses: each cluster has its own.
	Spec multiclusterv1beta1.ServiceImportSpec
	// Labels and Annotations of the imports.
	Labels, Annotations map[string]string
	// Clusters that export it, sorted.
	Clusters []string
	// Conflicts are what they differ in; none if they agree.
	Conflicts []Conflict
}

// Conflict is a property in which exports differ.
type Conflict struct {
	Reason multiclusterv1beta1.ConflictReason
	// Message describes what is in contention, which cluster wins and why.
	Message string
}

// Reasons of the conflicts, in order.
func (s Service) Reasons() []multiclusterv1beta1.ConflictReason {
	reasons := make([]multiclusterv1beta1.ConflictReason, len(s.Conflicts))
	for i, c := range s.Conflicts {
		reasons[i] = c.Reason
	}
	return reasons
}

// Messages of the conflicts, as one text.
func (s Service) Messages() string {
	messages := make([]string, len(s.Conflicts))
	for i, c := range s.Conflicts {
		messages[i] = c.Message
	}
	return strings.Join(messages, ". ")
}

// Merge returns what exports that Check accepts add up to. There has to be at least one.
func Merge(exports []Export) Service {
	exports = slices.Clone(exports)
	slices.SortFunc(exports, func(a, b Export) int {
		// The creationTimestamp of a ServiceExport, which KEP-1645 names, is what its cluster says.
		return cmp.Or(a.Recorded.Compare(b.Recorded), cmp.Compare(a.Cluster, b.Cluster))
	})
	oldest := exports[0]
	merged := Service{
		Spec: multiclusterv1beta1.ServiceImportSpec{
			Type:                  kindOf(oldest),
			Ports:                 ports(exports),
			SessionAffinity:       affinityOf(oldest),
			SessionAffinityConfig: affinityConfig(oldest),
			IPFamilies:            slices.Clone(oldest.Service.IPFamilies),
			InternalTrafficPolicy: oldest.Service.InternalTrafficPolicy,
			TrafficDistribution:   oldest.Service.TrafficDistribution,
		},
		Labels:      carried(oldest.Labels),
		Annotations: carried(oldest.Annotations),
		Conflicts:   conflicts(exports),
	}
	for _, e := range exports {
		merged.Clusters = append(merged.Clusters, e.Cluster)
	}
	slices.Sort(merged.Clusters)
	return merged
}

// property is something that exports may differ in.
type property struct {
	reason multiclusterv1beta1.ConflictReason
	name   string
	// value is the same text for values that do not differ.
	value func(Export) string
}

// conflicts are the properties in which exports differ. The oldest comes first.
func conflicts(exports []Export) []Conflict {
	var found []Conflict
	note := func(among []Export, p property) {
		followed, others := p.value(among[0]), 0
		for _, e := range among {
			if p.value(e) != followed {
				others++
			}
		}
		if others > 0 {
			found = append(found, Conflict{p.reason, fmt.Sprintf("Conflicting %s: %s; %d of %d clusters disagree",
				p.name, decision(p.reason, followed, among[0].Cluster), others, len(among))})
		}
	}
	// A timeout is in contention only where there is one.
	alike := slices.DeleteFunc(slices.Clone(exports), func(e Export) bool { return affinityOf(e) != affinityOf(exports[0]) })
	note(exports, property{multiclusterv1beta1.TypeConflict, "types", func(e Export) string { return string(kindOf(e)) }})
	note(exports, property{multiclusterv1beta1.PortConflict, "ports", portsText})
	note(exports, property{multiclusterv1beta1.SessionAffinityConflict, "session affinity", func(e Export) string { return string(affinityOf(e)) }})
	note(alike, property{multiclusterv1beta1.SessionAffinityConfigConflict, "session affinity timeouts", timeoutText})
	note(exports, property{multiclusterv1beta1.InternalTrafficPolicyConflict, "internal traffic policies", policyText})
	note(exports, property{multiclusterv1beta1.TrafficDistributionConflict, "traffic distributions", distributionText})
	if slices.ContainsFunc(exports, func(e Export) bool { return lacksFamily(e, exports[0]) }) {
		note(exports, property{multiclusterv1beta1.IPFamilyConflict, "IP families", familiesText})
	}
	note(exports, property{multiclusterv1beta1.LabelsConflict, "exported labels", func(e Export) string { return keyed(e.Labels) }})
	note(exports, property{multiclusterv1beta1.AnnotationsConflict, "exported annotations", func(e Export) string { return keyed(e.Annotations) }})
	return found
}

// decision describes what becomes of a property in contention.
func decision(reason multiclusterv1beta1.ConflictReason, followed, oldest string) string {
	if reason == multiclusterv1beta1.PortConflict {
		return fmt.Sprintf("using those of all clusters, and where two have one name or number that of the oldest export, which is in cluster %s", oldest)
	}
	const longest = 256 // labels and annotations may have more
	if len(followed) > longest {
		followed = strings.ToValidUTF8(followed[:longest], "") + "…"
	}
	return fmt.Sprintf("using %q from the oldest export, in cluster %s", cmp.Or(followed, "none"), oldest)
}

// ports is the union of all ports. Of several with one name, or with one protocol and number, the oldest export's counts.
func ports(exports []Export) []multiclusterv1beta1.ServicePort {
	type place struct {
		protocol corev1.Protocol
		number   int32
	}
	names, places := map[string]bool{}, map[place]bool{}
	union := []multiclusterv1beta1.ServicePort{} // the API requires a list, if an empty one
	for _, e := range exports {
		for _, p := range portsOf(e) {
			at := place{p.Protocol, p.Port}
			if names[p.Name] || places[at] || len(union) == maxUnion {
				continue
			}
			names[p.Name], places[at] = true, true
			union = append(union, p)
		}
	}
	return union
}

func kindOf(e Export) multiclusterv1beta1.ServiceImportType {
	if e.Service.ClusterIP == corev1.ClusterIPNone {
		return multiclusterv1beta1.Headless
	}
	return multiclusterv1beta1.ClusterSetIP
}

// portsOf is what of a Service's ports concerns its users.
func portsOf(e Export) []multiclusterv1beta1.ServicePort {
	list := make([]multiclusterv1beta1.ServicePort, 0, len(e.Service.Ports))
	for _, p := range e.Service.Ports {
		list = append(list, multiclusterv1beta1.ServicePort{
			Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol, Port: p.Port,
		})
	}
	return list
}

// portsText is the same for the same ports in any order.
func portsText(e Export) string {
	var list []string
	for _, p := range portsOf(e) {
		application := ""
		if p.AppProtocol != nil {
			application = *p.AppProtocol
		}
		list = append(list, fmt.Sprintf("%s %d/%s %s", p.Name, p.Port, p.Protocol, application))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func affinityOf(e Export) corev1.ServiceAffinity {
	return cmp.Or(e.Service.SessionAffinity, corev1.ServiceAffinityNone)
}

func affinityConfig(e Export) *corev1.SessionAffinityConfig {
	if affinityOf(e) == corev1.ServiceAffinityNone {
		return nil
	}
	return e.Service.SessionAffinityConfig.DeepCopy()
}

func timeoutText(e Export) string {
	config := affinityConfig(e)
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return fmt.Sprint(corev1.DefaultClientIPServiceAffinitySeconds)
	}
	return fmt.Sprint(*config.ClientIP.TimeoutSeconds)
}

func policyText(e Export) string {
	if p := e.Service.InternalTrafficPolicy; p != nil {
		return string(*p)
	}
	return string(corev1.ServiceInternalTrafficPolicyCluster)
}

func distributionText(e Export) string {
	if d := e.Service.TrafficDistribution; d != nil {
		return *d
	}
	return ""
}

// lacksFamily returns whether a client may reach the import in a family in which it does not reach the endpoints of a cluster. One without
// families is ignored.
func lacksFamily(e, oldest Export) bool {
	return len(e.Service.IPFamilies) > 0 && slices.ContainsFunc(oldest.Service.IPFamilies, func(f corev1.IPFamily) bool {
		return !slices.Contains(e.Service.IPFamilies, f)
	})
}

func familiesText(e Export) string {
	list := make([]string, len(e.Service.IPFamilies))
	for i, f := range e.Service.IPFamilies {
		list[i] = string(f)
	}
	return strings.Join(list, ", ")
}

// keyed is the same for the same keys and values.
func keyed(pairs map[string]string) string {
	kept := carried(pairs)
	list := make([]string, 0, len(kept))
	for _, key := range slices.Sorted(maps.Keys(kept)) {
		list = append(list, key+"="+kept[key])
	}
	return strings.Join(list, ",")
}

// carried leaves out keys that mean something to the control plane, to this API or to kubectl: a label of an export must not say whose an
// object is.
func carried(pairs map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range pairs {
		domain, _, _ := strings.Cut(key, "/")
		reserved := slices.ContainsFunc(reservedDomains, func(own string) bool { return domain == own || strings.HasSuffix(domain, "."+own) })
		if !reserved {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

var reservedDomains = []string{"karmada.io", "flagship.io", "multicluster.kubernetes.io", "multicluster.x-k8s.io", "kubectl.kubernetes.io"}
