package attacks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// setLimit sets or, with an empty value, removes a limit of a namespace. It has an effect a moment later.
func setLimit(t *testing.T, c *fleettest.Cluster, ns, annotation, value string) {
	t.Helper()
	fleettest.Update(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[annotation] = value
		if value == "" {
			delete(n.Annotations, annotation)
		}
	})
}

// fill creates ConfigMaps with a payload until one is refused, and fails if none of so many is. It returns how many were
// created, and the refusal.
func fill(t *testing.T, c *fleettest.Cluster, ns, name string, payload, most int) (created int, refusal error) {
	t.Helper()
	for i := range most {
		cm := fleettest.ConfigMap(ns, fmt.Sprintf("%s-%d", name, i), map[string]string{"payload": strings.Repeat("x", payload)})
		err := c.Create(t.Context(), cm)
		if apierrors.IsForbidden(err) {
			return i, err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("none of %d ConfigMaps in namespace %s is refused", most, ns)
	return 0, nil
}

// awaitRefused returns when a ConfigMap cannot be created any more, as a control plane counts what is stored: a moment after it was stored or
// the control plane was started. Nothing is written, so what is refused is refused for what was there before.
func awaitRefused(t *testing.T, c *fleettest.Cluster, ns string) {
	t.Helper()
	until(t, func() error {
		if err := c.Create(t.Context(), fleettest.ConfigMap(ns, "refused", nil), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("one more ConfigMap in namespace %s: %v, want a refusal", ns, err)
		}
		return nil
	})
}

// awaitAllowed returns when a ConfigMap can be created.
func awaitAllowed(t *testing.T, c *fleettest.Cluster, ns, name string) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		last = c.Create(ctx, fleettest.ConfigMap(ns, name, nil))
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("a ConfigMap in namespace %s is still refused: %v", ns, last)
	}
}

// expectEvent waits for an Event with a reason in a namespace.
func expectEvent(t *testing.T, c *fleettest.Cluster, ns, reason string) {
	t.Helper()
	fleettest.ExpectListed(t, c, &corev1.EventList{}, ns, func(l *corev1.EventList) error {
		for i := range l.Items {
			if l.Items[i].Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("none of %d Events has the reason %s", len(l.Items), reason)
	})
}

// metric reads a number from /metrics/flagship.
func metric(t *testing.T, c *fleettest.Cluster, series string) float64 {
	t.Helper()
	return metricAt(t, c, "/metrics/flagship", series)
}

// metricAt reads a number from a page of metrics; 0 if it is not there.
func metricAt(t *testing.T, c *fleettest.Cluster, path, series string) float64 {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(c.Config.Host, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestATenantWithoutEndIsRefused creates objects without end in one namespace.
func TestATenantWithoutEndIsRefused(t *testing.T) {
	fleet := shared.Start(t)
	ns, other := fleet.Namespace(t), fleet.Namespace(t)
	const limit = 40
	setLimit(t, fleet.Hub, ns, workv1alpha1.ObjectLimitAnnotation, strconv.Itoa(limit))
	tenant, neighbour := fleet.Hub.Tenant(t, ns, "configmaps"), fleet.Hub.Tenant(t, other, "configmaps")

	created, refusal := fill(t, tenant, ns, "flood", 10, 50*limit)
	for _, want := range []string{ns, strconv.Itoa(limit), "objects", "--namespace-object-limit", workv1alpha1.ObjectLimitAnnotation} {
		if !strings.Contains(refusal.Error(), want) {
			t.Errorf("the refusal does not name %q: %v", want, refusal)
		}
	}
	expectEvent(t, fleet.Hub, ns, events.NamespaceLimitReached)
	for i := range 2 * limit { // no other namespace is concerned
		if err := neighbour.Create(t.Context(), fleettest.ConfigMap(other, fmt.Sprintf("own-%d", i), nil)); err != nil {
			t.Fatalf("another tenant is refused: %v", err)
		}
	}
	flooded := fleettest.ConfigMap(ns, "flood-0", nil)
	fleettest.Update(t, tenant, flooded, func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"payload": "changed, and longer than before"} })
	for i := range created - limit/2 { // what was written before the limit had an effect is over it and has to go, too
		fleettest.Delete(t, tenant, fleettest.ConfigMap(ns, fmt.Sprintf("flood-%d", i), nil))
	}
	awaitAllowed(t, tenant, ns, "after")
}

// TestATenantWithLargeObjectsIsRefused stores bytes without end, and does the same by enlarging what is there.
func TestATenantWithLargeObjectsIsRefused(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	setLimit(t, fleet.Hub, ns, workv1alpha1.SizeLimitAnnotation, "3Mi")
	tenant := fleet.Hub.Tenant(t, ns, "configmaps")
	small := fleettest.ConfigMap(ns, "small", map[string]string{"payload": "x"})
	fleettest.Create(t, tenant, small)

	created, refusal := fill(t, tenant, ns, "large", 900_000, 100)
	if !strings.Contains(refusal.Error(), "3145728 bytes") {
		t.Errorf("the refusal does not name the limit: %v", refusal)
	}
	small.Data["payload"] = strings.Repeat("x", 900_000)
	if err := tenant.Update(t.Context(), small); !apierrors.IsForbidden(err) {
		t.Errorf("an object can be made larger: %v", err)
	}
	small.Data["payload"] = ""
	if err := tenant.Update(t.Context(), small); err != nil {
		t.Errorf("an object cannot be made smaller: %v", err)
	}
	for i := range created {
		fleettest.Delete(t, tenant, fleettest.ConfigMap(ns, fmt.Sprintf("large-%d", i), nil))
	}
	awaitAllowed(t, tenant, ns, "after")
}

// TestCopiesCount sends one large object to two members: what is stored for the namespace is three times the object.
func TestCopiesCount(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	setLimit(t, fleet.Hub, ns, workv1alpha1.SizeLimitAnnotation, "2500000")
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "propagationpolicies")
	const size = 900_000
	large := fleettest.ConfigMap(ns, "large", map[string]string{"payload": strings.Repeat("x", size)})
	fleettest.Create(t, tenant, large, fleettest.Policy(ns, "large", fleettest.Everywhere(), large))
	for _, member := range fleet.Members {
		fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "large", nil), fleettest.Exists)
	}
	awaitRefused(t, tenant, ns)
	until(t, func() error {
		if bytes := metric(t, fleet.Hub, fmt.Sprintf(`flagship_namespace_bytes{namespace=%q}`, ns)); bytes < 3*size || bytes > 4*size {
			return fmt.Errorf("%.0f bytes are counted for an object of %d bytes and its two copies", bytes, size)
		}
		return nil
	})
	fleettest.Delete(t, tenant, large)
	awaitAllowed(t, tenant, ns, "after")
}

// TestOnePolicyForManyTemplatesWaits writes as many templates as are allowed, and then one policy that makes two copies of
// each. Admission cannot predict that: rendering stops, says why, and goes on when there is space.
func TestOnePolicyForManyTemplatesWaits(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	const (
		templates = 40
		limit     = 60 // 40 templates, and half of the 40 bindings, which are not refused: no Work of 80
	)
	setLimit(t, fleet.Hub, ns, workv1alpha1.ObjectLimitAnnotation, strconv.Itoa(limit))
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "propagationpolicies")
	for i := range templates {
		fleettest.Create(t, tenant, fleettest.ConfigMap(ns, fmt.Sprintf("cm-%d", i), nil))
	}
	policy := fleettest.Policy(ns, "all", fleettest.Everywhere())
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	fleettest.Create(t, tenant, policy)

	fleettest.ExpectListed(t, fleet.Hub, &workv1alpha2.ResourceBindingList{}, ns, func(l *workv1alpha2.ResourceBindingList) error {
		for i := range l.Items {
			c := meta.FindStatusCondition(l.Items[i].Status.Conditions, workv1alpha2.Rendered)
			if c != nil && c.Reason == workv1alpha2.NamespaceLimitReason && strings.Contains(c.Message, strconv.Itoa(limit)) {
				return nil
			}
		}
		return fmt.Errorf("none of %d bindings says that its Works wait", len(l.Items))
	})
	var works workv1alpha1.WorkList
	if err := fleet.Hub.List(t.Context(), &works); err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range works.Items {
		if works.Items[i].Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation] == ns {
			count++
		}
	}
	if count >= 2*templates {
		t.Errorf("all %d Works were written", count)
	}

	setLimit(t, fleet.Hub, ns, workv1alpha1.ObjectLimitAnnotation, "")
	for _, member := range fleet.Members {
		fleettest.ExpectListed(t, member, &corev1.ConfigMapList{}, ns, func(l *corev1.ConfigMapList) error {
			if arrived := len(l.Items); arrived < templates {
				return fmt.Errorf("%d of %d objects have arrived in %s", arrived, templates, member.Name)
			}
			return nil
		})
	}
}

// TestATenantDoesNotRaiseHisLimit has a tenant whose Role includes the Namespace itself.
func TestATenantDoesNotRaiseHisLimit(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	setLimit(t, fleet.Hub, ns, workv1alpha1.ObjectLimitAnnotation, "10")
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "namespaces", "namespaces/status", "namespaces/finalize")
	own := &corev1.Namespace{}
	if err := tenant.Get(t.Context(), client.ObjectKey{Name: ns}, own); err != nil {
		t.Fatal(err)
	}
	raised := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0"}}}`, workv1alpha1.ObjectLimitAnnotation))
	if err := tenant.Patch(t.Context(), own, raised); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant raises the limit of his namespace: %v", err)
	}
	if err := tenant.Status().Patch(t.Context(), own, raised); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant raises it through the status: %v", err)
	}
	labelled := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"own":"label"}}}`))
	if err := tenant.Patch(t.Context(), own, labelled); err != nil {
		t.Errorf("a tenant cannot do what his Role allows: %v", err)
	}
}

// TestLimitsOutliveARestart fills a namespace, and then storage.
func TestLimitsOutliveARestart(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	const ns, limit = "shop", 30
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ns, Annotations: map[string]string{workv1alpha1.ObjectLimitAnnotation: strconv.Itoa(limit)},
	}})
	tenant := hub.Tenant(t, ns, "configmaps")
	_, _ = fill(t, tenant, ns, "before", 10, 50*limit)
	hub.Kill()

	const quota = 64 << 20
	hub.Start(t, "--storage-quota", "64Mi")
	awaitRefused(t, tenant, ns)
	// The size is read after each object: what the database takes for a number of objects varies, and at its quota it takes no Event.
	for i := 0; metricAt(t, hub.Cluster, "/metrics", `apiserver_storage_size_bytes{storage_cluster_id="etcd-0"}`) < 0.65*quota; i++ {
		fleettest.Create(t, hub.Cluster, fleettest.ConfigMap("default", fmt.Sprintf("large-%d", i), map[string]string{"payload": strings.Repeat("x", 1_000_000)}))
	}
	expectEvent(t, hub.Cluster, "karmada-system", events.StorageNearQuota)
	if ratio := metric(t, hub.Cluster, "flagship_storage_used_ratio"); ratio < 0.6 || ratio >= 1 {
		t.Errorf("the metric says that %g of the quota of storage is used", ratio)
	}
}
