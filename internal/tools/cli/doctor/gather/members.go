package gather

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
)

const (
	// atOnce is how many members are read at the same time.
	atOnce = 32
	// maxKinds is for how many kinds the rights in a member are checked.
	maxKinds = 20
)

// members reads all members at the same time, each for no longer than MemberTimeout.
func (r *reader) members(ctx context.Context, all []clusterv1alpha1.Cluster, bindings []workv1alpha2.Binding) map[string]checks.Member {
	kinds := r.kindsIn(bindings)
	found := map[string]checks.Member{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range all {
		c := &all[i]
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			memberCtx, cancel := context.WithTimeout(ctx, r.MemberTimeout)
			defer cancel()
			member := r.member(memberCtx, c, kinds[c.Name])
			mu.Lock()
			defer mu.Unlock()
			found[c.Name] = member
		})
	}
	wg.Wait()
	return found
}

func (r *reader) member(ctx context.Context, c *clusterv1alpha1.Cluster, kinds []schema.GroupResource) (m checks.Member) {
	raw, err := RawClient(cli.ThroughProxy(r.Hub, c.Name))
	if err != nil {
		m.Answer = err
		return m
	}
	if _, m.Answer = raw.Get().AbsPath("/readyz").MaxRetries(0).DoRaw(ctx); m.Answer != nil || c.Spec.SyncMode == clusterv1alpha1.Pull {
		m.Denied.Err = m.Answer
		return m
	}
	m.Denied.Value, m.Denied.Err = r.denied(ctx, c, kinds)
	return m
}

// denied returns which of the rights that the control plane uses its account in a member does not have. The caller needs the right to
// create SubjectAccessReviews there, and to read the Secret that names the account.
func (r *reader) denied(ctx context.Context, c *clusterv1alpha1.Cluster, kinds []schema.GroupResource) ([]string, error) {
	if c.Spec.SecretRef == nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: c.Spec.SecretRef.Namespace, Name: c.Spec.SecretRef.Name}, secret); err != nil {
		return nil, err
	}
	token := secret.Data[clusterv1alpha1.SecretTokenKey]
	if _, ours := memberaccount.LifeOf(token); !ours {
		return nil, nil // a credential that was made elsewhere: whose rights it has is not known
	}
	account := memberaccount.ControllerOf(c.Name).Named(token).Name
	config := cli.ThroughProxy(r.Hub, c.Name)
	config.QPS = -1
	member, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	var denied []string
	for _, right := range wanted(c, kinds) {
		review := &authorizationv1.SubjectAccessReview{Spec: right}
		review.Spec.User = "system:serviceaccount:" + clusterv1alpha1.ClusterNamespace + ":" + account
		review.Spec.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + clusterv1alpha1.ClusterNamespace, "system:authenticated"}
		answer, err := member.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			denied = append(denied, rightName(right))
		}
	}
	return denied, nil
}

// wanted are the rights without which a member is not read or not written. In a member in which objects are applied as other accounts,
// these need the rights to write.
func wanted(c *clusterv1alpha1.Cluster, kinds []schema.GroupResource) []authorizationv1.SubjectAccessReviewSpec {
	rights := []authorizationv1.SubjectAccessReviewSpec{{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/readyz", Verb: "get"}}}
	add := func(kind schema.GroupResource, verbs ...string) {
		for _, verb := range verbs {
			rights = append(rights, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Group: kind.Group, Resource: kind.Resource, Verb: verb}})
		}
	}
	add(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "watch")
	add(schema.GroupResource{Resource: "namespaces"}, "watch", "create", "patch")
	for _, kind := range kinds {
		add(kind, "watch")
		if c.Annotations[clusterv1alpha1.ApplyAsAnnotation] == "" {
			add(kind, "create", "patch", "delete")
		}
	}
	return rights
}

func rightName(right authorizationv1.SubjectAccessReviewSpec) string {
	if a := right.NonResourceAttributes; a != nil {
		return a.Verb + " " + a.Path
	}
	a := right.ResourceAttributes
	return fmt.Sprintf("%s %s", a.Verb, schema.GroupResource{Group: a.Group, Resource: a.Resource})
}

// kindsIn returns the resources that bindings place in each cluster.
func (r *reader) kindsIn(bindings []workv1alpha2.Binding) map[string][]schema.GroupResource {
	resources := map[schema.GroupVersionKind]*meta.RESTMapping{}
	sets := map[string]map[schema.GroupResource]bool{}
	for _, b := range bindings {
		spec := b.BindingSpec()
		kind := spec.Resource.GroupVersionKind()
		mapping, known := resources[kind]
		if !known {
			mapping, _ = r.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version) // a kind that is not served any more has none
			resources[kind] = mapping
		}
		for _, target := range spec.Clusters {
			if mapping == nil {
				continue
			}
			if sets[target.Name] == nil {
				sets[target.Name] = map[schema.GroupResource]bool{}
			}
			sets[target.Name][mapping.Resource.GroupResource()] = true
		}
	}
	kinds := map[string][]schema.GroupResource{}
	for cluster, set := range sets {
		sorted := slices.SortedFunc(maps.Keys(set), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
		kinds[cluster] = sorted[:min(len(sorted), maxKinds)]
	}
	return kinds
}
