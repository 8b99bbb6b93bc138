package restore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// Paths of the pages, for who may get them. Both take the query parameter "cluster", may be given again.
const (
	OrphansPath = "/flagship/orphans"
	StatusPath  = "/flagship/restore"
	// LocalHeader in a request has a server answer from its own state only, about the clusters that it serves.
	LocalHeader = "Flagship-Local"
)

// Class defines how an object in a member differs from what the control plane has stored.
type Class string

// The classes.
const (
	// Orphan: the member has it, marked as managed by this control plane, and there is no Work for it.
	Orphan Class = "Orphan"
	// Newer: it was applied from a later generation of its template, or from a later template, than that in the Work.
	Newer Class = "Newer"
	// Different: what was applied last is something else than what is in the Work. It may be newer: kinds without generations,
	// such as ConfigMaps, do not tell.
	Different Class = "Different"
	// Missing: the Work has it and the member has not; it is made again when writing goes on.
	Missing Class = "Missing"
	// Unwanted: the member has it, and its Work is being deleted or does not list it any more; it is deleted when deletions go on.
	// A namespace that then holds what the control plane did not make stays.
	Unwanted Class = "Unwanted"
)

// Finding is one such object.
type Finding struct {
	Class     Class  `json:"class"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is that of the object in the member; empty if the member has none.
	UID types.UID `json:"uid,omitempty"`
	// Work is the Work that the object names.
	Work string `json:"work,omitempty"`
}

// Report is what there is to say about one member.
type Report struct {
	Cluster string `json:"cluster"`
	// Held means that something is not done in the member until a person allows it.
	Held bool `json:"held"`
	// Waiting are the operations that wait: create, change, delete.
	Waiting []string `json:"waiting,omitempty"`
	// Counts has the number of objects of each class, those beyond the limit of a list included.
	Counts   map[Class]int `json:"counts,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`
	// Error reports why the member could not be looked into.
	Error string `json:"error,omitempty"`
}

// maxFindings bounds the list about one member.
const maxFindings = 5000

func (r *Report) add(f Finding) {
	if r.Counts == nil {
		r.Counts = map[Class]int{}
	}
	r.Counts[f.Class]++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// cached lists at most limit orphans among the objects that are watched, and reports how many there are in all.
func (g *Guard) cached(ctx context.Context, conn *member.Conn, limit int) (n int, found []Finding, err error) {
	works, err := g.works(ctx, conn.Name())
	if err != nil {
		return 0, nil, err
	}
	// One list is much cheaper than as many reads: each finds the resource of its kind anew.
	present := make(sets.Set[string], len(works))
	for i := range works {
		present.Insert(works[i].Name)
	}
	conn.Managed(func(p objectcache.Place, key types.NamespacedName) {
		// A Work that is newer than the list is read.
		if present.Has(key.Name) && key.Namespace == workv1alpha1.ExecutionNamespace(conn.Name()) || !g.isMissing(ctx, conn.Name(), key) {
			return
		}
		live, ok := conn.Head(p.Resource, p.Object.Namespace, p.Object.Name)
		if !ok || live.GetDeletionTimestamp() != nil || !belongsTo(conn, live) {
			return
		}
		if n++; n <= limit {
			found = append(found, Finding{Class: Orphan, Resource: p.Resource.GroupResource().String(), Namespace: p.Object.Namespace,
				Name: p.Object.Name, UID: live.GetUID(), Work: key.String()})
		}
	})
	return n, found, nil
}

// works lists the Works of a cluster, of which nothing may be changed.
func (g *Guard) works(ctx context.Context, cluster string) ([]workv1alpha1.Work, error) {
	var works workv1alpha1.WorkList
	if err := g.Client.List(ctx, &works, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Works of cluster %s: %w", cluster, err)
	}
	return works.Items, nil
}

// isMissing returns whether a Work of a cluster does not exist.
func (g *Guard) isMissing(ctx context.Context, cluster string, key types.NamespacedName) bool {
	of, ok := workv1alpha1.ClusterOfExecutionNamespace(key.Namespace)
	if !ok || of != cluster {
		return false // another control plane's
	}
	return apierrors.IsNotFound(g.Client.Get(ctx, key, &workv1alpha1.Work{}, client.UnsafeDisableDeepCopy))
}

// belongsTo returns whether an object does not name another control plane than this one.
func belongsTo(conn *member.Conn, live metav1.Object) bool {
	return conn.ControlPlane().Other(live) == ""
}

// survey lists how the managed objects of a member differ from the Works of its cluster. It reads the metadata of everything
// that carries the managed label, kinds that no Work has included.
func (g *Guard) survey(ctx context.Context, conn *member.Conn, report *Report) error {
	works, err := g.works(ctx, conn.Name())
	if err != nil {
		return err
	}
	known := knownFrom(conn.Name(), conn.ControlPlane(), works, g.Fingerprints)
	served, err := servedBy(ctx, conn)
	if err != nil {
		return err
	}
	for gvr, kind := range served {
		if err := g.surveyKind(ctx, conn, known, gvr, kind, report); err != nil {
			return err
		}
	}
	for o, w := range known.wanted {
		if !w.seen {
			report.add(Finding{Class: Missing, Resource: schema.GroupResource{Group: o.group, Resource: o.kind}.String(), Namespace: o.namespace, Name: o.name, Work: w.work})
		}
	}
	slices.SortFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// surveyKind compares the managed objects of one kind with the Works. A kind that the member does not list has none.
func (g *Guard) surveyKind(ctx context.Context, conn *member.Conn, k known, gvr schema.GroupVersionResource, kind string, report *Report) error {
	options := metav1.ListOptions{LabelSelector: workv1alpha1.ManagedLabel + "=" + workv1alpha1.ManagedLabelValue, Limit: 500}
	for pages := (bounds.Pages{}); ; {
		list, err := conn.Metadata().Resource(gvr).List(ctx, options)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %s in cluster %s: %w", gvr, conn.Name(), err)
		}
		for i := range list.Items {
			if live := &list.Items[i]; belongsTo(conn, live) {
				if err := g.compare(ctx, k, gvr.GroupResource(), gvr.GroupVersion().WithKind(kind), live, report); err != nil {
					return err
				}
			}
		}
		if err := pages.Next(len(list.Items), list.Continue); err != nil {
			return fmt.Errorf("listing %s in cluster %s: %w", gvr, conn.Name(), err)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// object names an object by its kind, in whatever version.
type object struct{ group, kind, namespace, name string }

// want is what the Works of a cluster say about an object.
type want struct {
	work       string
	template   string // uid
	generation int64
	// fingerprint is what the record of the object begins with if it is as the Work has it; empty if that is not known.
	fingerprint string
	seen        bool
}

// known is what the control plane has for a cluster. A Work that is being deleted requires nothing.
type known struct {
	cluster string
	self    ownership.ControlPlane
	wanted  map[object]*want
	works   map[types.NamespacedName]*workv1alpha1.Work
}

func knownFrom(cluster string, self ownership.ControlPlane, works []workv1alpha1.Work, fingerprintsOf func(*workv1alpha1.Work) []string) known {
	k := known{cluster, self, map[object]*want{}, make(map[types.NamespacedName]*workv1alpha1.Work, len(works))}
	for i := range works {
		k.works[client.ObjectKeyFromObject(&works[i])] = &works[i]
		if works[i].DeletionTimestamp != nil {
			continue
		}
		fingerprints := fingerprintsOf(&works[i])
		for n, manifest := range works[i].Spec.Workload.Manifests {
			var m metav1.PartialObjectMetadata
			if json.Unmarshal(manifest.Raw, &m) != nil {
				continue // reported as a failure of the Work
			}
			template, generation := templateOf(&m)
			k.wanted[object{m.GroupVersionKind().Group, m.Kind, m.Namespace, m.Name}] = &want{
				work: works[i].Namespace + "/" + works[i].Name, template: template, generation: generation,
				fingerprint: fingerprints[n],
			}
		}
	}
	return k
}

func templateOf(obj metav1.Object) (uid string, generation int64) {
	annotations := obj.GetAnnotations()
	generation, _ = strconv.ParseInt(annotations[workv1alpha1.TemplateGenerationAnnotation], 10, 64) // 0 if there is none
	return annotations[workv1alpha1.TemplateUIDAnnotation], generation
}

// compare adds what is to be said about one object that the member has.
func (g *Guard) compare(ctx context.Context, k known, resource schema.GroupResource, kind schema.GroupVersionKind, live *metav1.PartialObjectMetadata, report *Report) error {
	annotations := live.GetAnnotations()
	key := types.NamespacedName{Namespace: annotations[workv1alpha1.WorkNamespaceAnnotation], Name: annotations[workv1alpha1.WorkNameAnnotation]}
	finding := Finding{Resource: resource.String(), Namespace: live.Namespace, Name: live.Name, UID: live.UID, Work: key.String()}
	wanted := k.wanted[object{kind.Group, kind.Kind, live.Namespace, live.Name}]
	if wanted == nil {
		if live.GetDeletionTimestamp() != nil {
			return nil
		}
		unwanted, err := g.isUnwanted(k.self, k.works[key], kind, live)
		if err != nil {
			return err
		}
		if unwanted {
			finding.Class = Unwanted
			report.add(finding)
		} else if k.works[key] == nil && g.isMissing(ctx, k.cluster, key) {
			finding.Class = Orphan
			report.add(finding)
		}
		return nil
	}
	wanted.seen = true
	template, generation := templateOf(live)
	record := annotations[workv1alpha1.LastAppliedAnnotation]
	switch {
	case record == "": // as another control plane left it: the template is one of that control plane
		return nil
	case template != "" && wanted.template != "" && (template != wanted.template || generation > wanted.generation):
		finding.Class = Newer
	case wanted.fingerprint != "" && !strings.HasPrefix(record, wanted.fingerprint):
		finding.Class = Different
	default:
		return nil
	}
	report.add(finding)
	return nil
}

// isUnwanted returns whether a Work, nil for none, deletes an object that nothing requires.
func (g *Guard) isUnwanted(self ownership.ControlPlane, work *workv1alpha1.Work, kind schema.GroupVersionKind, live *metav1.PartialObjectMetadata) (bool, error) {
	if work == nil {
		return false, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("reading the metadata of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(live), err)
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(kind)
	return g.Deletes(self, work, obj), nil
}

// servedBy lists the resources of a member that can be listed and deleted, in their preferred versions.
func servedBy(ctx context.Context, conn *member.Conn) (map[schema.GroupVersionResource]string, error) {
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, conn.Discovery())
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("listing what cluster %s serves: %w", conn.Name(), err)
	}
	served := map[schema.GroupVersionResource]string{}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no server defines it
		}
		for _, r := range list.APIResources {
			served[gv.WithResource(r.Name)] = r.Kind
		}
	}
	return served, nil
}

// waiting names the operations of a Hold.
func waiting(hold member.Hold) []string {
	var names []string
	for _, o := range []struct {
		name string
		held bool
	}{{clusterv1alpha1.ResumeCreate, hold.Create}, {clusterv1alpha1.ResumeChange, hold.Change}, {clusterv1alpha1.ResumeDelete, hold.Delete}} {
		if o.held {
			names = append(names, o.name)
		}
	}
	return names
}

// Pages answers the paths of the package.
func (g *Guard) Pages() map[string]http.Handler {
	return map[string]http.Handler{
		OrphansPath: g.page(OrphansPath, func(ctx context.Context, conn *member.Conn, report *Report) error {
			n, found, err := g.cached(ctx, conn, maxFindings)
			if err != nil {
				return err
			}
			report.Counts, report.Findings = map[Class]int{Orphan: n}, found
			return nil
		}),
		StatusPath: g.page(StatusPath, g.survey),
	}
}

func (g *Guard) page(path string, fill func(context.Context, *member.Conn, *Report) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := r.URL.Query()["cluster"]
		elsewhere := g.Elsewhere
		if r.Header.Get(LocalHeader) != "" {
			elsewhere = nil
		}
		if len(names) == 0 {
			var err error
			if names, err = g.clusters(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		reports := make([]Report, 0, len(names))
		for _, name := range names {
			report := Report{Cluster: name}
			conn, ok := g.Fleet.Get(name)
			var err error
			switch {
			case ok:
				err = g.fill(r.Context(), conn, &report, fill)
			case elsewhere != nil:
				report, err = elsewhere(r.Context(), path, name)
			default:
				err = errors.New("there is no connection to the cluster")
			}
			if err != nil {
				report.Cluster, report.Error = name, err.Error()
			}
			reports = append(reports, report)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reports) // the caller is gone otherwise
	})
}

// fill makes the report about one cluster.
func (g *Guard) fill(ctx context.Context, conn *member.Conn, report *Report, fill func(context.Context, *member.Conn, *Report) error) error {
	held, err := g.Held(ctx, conn)
	if err != nil {
		return err
	}
	report.Held, report.Waiting = held != member.Hold{}, waiting(held)
	return fill(ctx, conn, report)
}

// clusters are those that a page is about if the request names none.
func (g *Guard) clusters(ctx context.Context) ([]string, error) {
	names := g.Fleet.Names()
	if g.Elsewhere != nil {
		var all clusterv1alpha1.ClusterList
		if err := g.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing clusters: %w", err)
		}
		names = nil
		for i := range all.Items {
			if all.Items[i].Spec.SyncMode == clusterv1alpha1.Push {
				names = append(names, all.Items[i].Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
