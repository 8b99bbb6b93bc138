package gather

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/cli/clusters"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
)

// page is how many objects one list has at most.
const page = 500

// Options say what is read.
type Options struct {
	// Hub leads to the control plane, as the caller.
	Hub *rest.Config
	// MemberTimeout is how long one member may take. Members are read at the same time.
	MemberTimeout time.Duration
	Clock         clock.PassiveClock
}

// reader reads from one control plane.
type reader struct {
	Options
	raw    rest.Interface
	client client.Client
}

// Facts reads all. What cannot be read has its error; the error of Facts is only that there is no way to read anything.
func Facts(ctx context.Context, o Options) (checks.Facts, error) {
	r, err := newReader(o)
	if err != nil {
		return checks.Facts{}, err
	}
	f := checks.Facts{Now: o.Clock.Now()}
	r.answer(ctx, &f)
	if f.Ready.Err != nil {
		for _, err := range []*error{
			&f.Metrics.Err, &f.Clusters.Err, &f.Certificates.Err, &f.Kubernetes.Err, &f.HubTime.Err, &f.Requests.Err, &f.Agents.Err, &f.Bindings.Err,
			&f.Works.Err, &f.Namespaces.Err, &f.Orphans.Err,
		} {
			*err = errNoAnswer
		}
		return f, nil
	}
	var wg sync.WaitGroup
	for _, read := range []func(){
		func() {
			f.Certificates.Value, f.HubTime.Value, f.Certificates.Err = r.certificates(ctx)
			f.HubTime.Err = f.Certificates.Err
		},
		func() { f.Metrics.Value, f.Metrics.Err = r.metrics(ctx) },
		func() { f.Kubernetes.Value, f.Kubernetes.Err = r.version(ctx) },
		func() { f.Requests.Value, f.Requests.Err = r.requests(ctx) },
		func() { f.Agents.Value, f.Agents.Err = r.agents(ctx) },
		func() { f.Works.Value, f.Works.Err = r.works(ctx) },
		func() { f.Namespaces.Value, f.Namespaces.Err = r.namespaces(ctx) },
		func() { f.Orphans.Value, f.Orphans.Err = r.orphans(ctx) },
		func() {
			var bindings []workv1alpha2.Binding
			bindings, f.Bindings.Err = r.bindings(ctx)
			for _, b := range bindings {
				f.Bindings.Value = append(f.Bindings.Value, bindingObject(b))
			}
			f.Templates.Value, f.Templates.Err = r.templates(ctx, f.Bindings.Value)
			f.Clusters.Value, f.Clusters.Err = r.clusters(ctx)
			f.Members = r.members(ctx, f.Clusters.Value, bindings)
		},
	} {
		wg.Go(read)
	}
	wg.Wait()
	return f, nil
}

func newReader(o Options) (*reader, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	hub := rest.CopyConfig(o.Hub)
	hub.QPS, hub.WarningHandlerWithContext = -1, rest.NoWarnings{}
	o.Hub = hub
	c, err := client.New(hub, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	raw, err := RawClient(hub)
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	return &reader{o, raw, c}, nil
}

// each calls a function for every object of a kind, page by page.
func each[L client.ObjectList](ctx context.Context, r *reader, list L, visit func(L), options ...client.ListOption) error {
	for {
		if err := r.client.List(ctx, list, append(options, client.Limit(page), client.Continue(list.GetContinue()))...); err != nil {
			return err
		}
		visit(list)
		if list.GetContinue() == "" {
			return nil
		}
	}
}

func (r *reader) clusters(ctx context.Context) (found []clusterv1alpha1.Cluster, err error) {
	err = each(ctx, r, &clusterv1alpha1.ClusterList{}, func(l *clusterv1alpha1.ClusterList) { found = append(found, l.Items...) })
	return found, err
}

func (r *reader) bindings(ctx context.Context) (found []workv1alpha2.Binding, err error) {
	if err := each(ctx, r, &workv1alpha2.ResourceBindingList{}, func(l *workv1alpha2.ResourceBindingList) {
		for i := range l.Items {
			found = append(found, &l.Items[i])
		}
		l.Items = nil // the next page is decoded into new memory
	}); err != nil {
		return nil, err
	}
	err = each(ctx, r, &workv1alpha2.ClusterResourceBindingList{}, func(l *workv1alpha2.ClusterResourceBindingList) {
		for i := range l.Items {
			found = append(found, &l.Items[i])
		}
		l.Items = nil
	})
	return found, err
}

// objectOf is what the checks need of an object.
func objectOf(kind string, o metav1.Object, conditions []metav1.Condition) checks.Object {
	object := checks.Object{
		Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Created: o.GetCreationTimestamp().Time, Finalizers: o.GetFinalizers(), Conditions: conditions,
	}
	if deleted := o.GetDeletionTimestamp(); deleted != nil {
		object.Deleted = deleted.Time
	}
	return object
}

func bindingObject(b workv1alpha2.Binding) checks.Object {
	kind := "ResourceBinding"
	if b.GetNamespace() == "" {
		kind = "ClusterResourceBinding"
	}
	object := objectOf(kind, b, b.BindingStatus().Conditions)
	of := b.BindingSpec().Resource
	object.Template = checks.Template{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}
	return object
}

func (r *reader) works(ctx context.Context) (found []checks.Object, err error) {
	err = each(ctx, r, &workv1alpha1.WorkList{}, func(l *workv1alpha1.WorkList) {
		for i := range l.Items {
			object := objectOf("Work", &l.Items[i], l.Items[i].Status.Conditions)
			object.Binding = workv1alpha2.BoundTo(&l.Items[i])
			found = append(found, object)
		}
		l.Items = nil
	})
	return found, err
}

func (r *reader) namespaces(ctx context.Context) (found []checks.Object, err error) {
	err = each(ctx, r, &corev1.NamespaceList{}, func(l *corev1.NamespaceList) {
		for i := range l.Items {
			object := objectOf("Namespace", &l.Items[i], nil)
			for _, condition := range l.Items[i].Status.Conditions {
				if condition.Status == corev1.ConditionTrue { // what is left in it, and why
					object.Finalizers = append(object.Finalizers, condition.Message)
				}
			}
			found = append(found, object)
		}
	})
	return found, err
}

// templates returns which templates of bindings exist.
func (r *reader) templates(ctx context.Context, bindings []checks.Object) (map[checks.Template]bool, error) {
	wanted := map[checks.Template][]checks.Template{} // by kind
	for _, b := range bindings {
		kind := checks.Template{APIVersion: b.Template.APIVersion, Kind: b.Template.Kind}
		wanted[kind] = append(wanted[kind], b.Template)
	}
	found := map[checks.Template]bool{}
	var fault error
	for kind, templates := range wanted {
		exists := map[string]bool{}
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: kind.APIVersion, Kind: kind.Kind + "List"}}
		if err := each(ctx, r, list, func(l *metav1.PartialObjectMetadataList) {
			for i := range l.Items {
				exists[l.Items[i].Namespace+"/"+l.Items[i].Name] = true
			}
		}); err != nil {
			fault = err
			continue
		}
		for _, t := range templates {
			found[t] = exists[t.Namespace+"/"+t.Name]
		}
	}
	return found, fault
}

// requests returns the requests of agents that are not signed.
func (r *reader) requests(ctx context.Context) (found []checks.Request, err error) {
	err = each(ctx, r, &certificatesv1.CertificateSigningRequestList{}, func(l *certificatesv1.CertificateSigningRequestList) {
		for i := range l.Items {
			csr := &l.Items[i]
			// The user name of an agent that renews; the first request is made with a bootstrap token and has it in its text.
			cluster, agent := strings.CutPrefix(csr.Spec.Username, clusterv1alpha1.AgentUserPrefix)
			if !agent && !strings.Contains(strings.Join(csr.Spec.Groups, " "), clusterv1alpha1.AgentBootstrappersGroup) || len(csr.Status.Certificate) > 0 {
				continue
			}
			if !agent {
				cluster = "a new agent"
			}
			request := checks.Request{Name: csr.Name, Cluster: cluster, Created: csr.CreationTimestamp.Time}
			for _, condition := range csr.Status.Conditions {
				request.Denied = request.Denied || condition.Type != certificatesv1.CertificateApproved
			}
			found = append(found, request)
		}
	})
	return found, err
}

// agents reads what agents report in the Leases of their Clusters.
func (r *reader) agents(ctx context.Context) (map[string]checks.Agent, error) {
	found := map[string]checks.Agent{}
	return found, each(ctx, r, &coordinationv1.LeaseList{}, func(l *coordinationv1.LeaseList) {
		for i := range l.Items {
			agent := checks.Agent{Version: l.Items[i].Annotations[clusterv1alpha1.AgentVersionAnnotation]}
			agent.Expires, _ = time.Parse(time.RFC3339, l.Items[i].Annotations[clusterv1alpha1.AgentCertificateExpiryAnnotation])
			found[l.Items[i].Name] = agent
		}
	}, client.InNamespace(clusterv1alpha1.ClusterNamespace))
}

func (r *reader) orphans(ctx context.Context) ([]checks.Orphans, error) {
	reports, err := clusters.FetchReports(ctx, r.Hub, restore.OrphansPath, nil)
	if err != nil {
		return nil, err
	}
	found := make([]checks.Orphans, 0, len(reports))
	for _, report := range reports {
		found = append(found, checks.Orphans{Cluster: report.Cluster, Count: report.Counts[restore.Orphan], Err: report.Error})
	}
	return found, nil
}
