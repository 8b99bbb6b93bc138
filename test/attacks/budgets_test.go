package attacks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAliasesDoNotFillTheMemory: a ConfigMap of 425 kB with eight thousand aliases of a long text, which an override would write out: 3.2 GB.
func TestAliasesDoNotFillTheMemory(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "propagationpolicies", "overridepolicies")
	bomb := fleettest.ConfigMap(ns, "bomb", map[string]string{"app": "a: &a " + strings.Repeat("x", 400_000) + "\nb: [" + strings.Repeat("*a,", 8_000) + "*a]\n"})
	edit := policyv1alpha1.FieldOverrider{FieldPath: "/data/app", YAML: []policyv1alpha1.YAMLPatchOperation{
		{SubPath: "/c", Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: []byte("1")}},
	}}
	overrides := overridePolicy(ns, "bomb", policyv1alpha1.Overriders{FieldOverrider: []policyv1alpha1.FieldOverrider{edit}})
	overrides.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Name: bomb.Name}}
	fleettest.Create(t, tenant, overrides, bomb, fleettest.Policy(ns, "bomb", fleettest.To(member.Name), bomb))
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bomb-configmap"}}, func(binding *workv1alpha2.ResourceBinding) error {
		rendered := meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.Rendered)
		if rendered == nil || rendered.Status != metav1.ConditionFalse || !strings.Contains(rendered.Message, "more than 1400000 bytes") {
			return fmt.Errorf("the condition %s is %+v, want that the document is too large", workv1alpha2.Rendered, rendered)
		}
		return nil
	})
}

// TestLargeTemplatesDelayNoOther: a tenant creates twenty Deployments of 1 MB, and then another one a ConfigMap. It is in its member before more
// than half of the large ones that were on their way have a Work.
func TestLargeTemplatesDelayNoOther(t *testing.T) {
	fleettest.Nightly(t, "twenty objects of 1 MB take two processors a minute; tests of package controlloop guard the turns")
	words := make([]string, 100_000)
	for i := range words {
		words[i] = fmt.Sprintf("w%06d", i)
	}
	const count, half = 20, 10
	fleet := shared.Start(t)
	member := fleet.Members[0]
	heavy, light := fleet.Namespace(t), fleet.Namespace(t)
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: light}}, fleettest.Exists[*corev1.Namespace])
	var policies, large []client.Object
	for i := range count {
		deployment := fleettest.Deployment(heavy, fmt.Sprintf("large-%d", i), 0)
		deployment.Spec.Template.Spec.Containers[0].Args = words
		large = append(large, deployment)
		policies = append(policies, fleettest.Policy(heavy, deployment.Name, fleettest.To(member.Name), deployment))
	}
	small := fleettest.ConfigMap(light, "small", map[string]string{"a": "b"})
	fleettest.Create(t, fleet.Hub, append(policies, fleettest.Policy(light, "small", fleettest.To(member.Name), small))...)
	var creating errgroup.Group
	creating.SetLimit(8)
	for _, object := range large {
		creating.Go(func() error {
			// An etcd that gets too little of a processor answers with a timeout, whether it has stored the object or not.
			patience := wait.Backoff{Duration: time.Second, Steps: 60}
			return client.IgnoreAlreadyExists(retry.OnError(patience, func(err error) bool { return !apierrors.IsAlreadyExists(err) }, func() error {
				return fleet.Hub.Create(t.Context(), object)
			}))
		})
	}
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	begun, before := time.Now(), largeWorks(t, fleet, member, heavy)
	fleettest.Create(t, fleet.Hub, small)
	fleettest.ExpectEventually(t, member, small, fleettest.Exists[*corev1.ConfigMap])
	took, rendered := time.Since(begun), largeWorks(t, fleet, member, heavy)
	t.Logf("the ConfigMap is in its member after %s, while %d of %d large Deployments got a Work, after %d that had one", took, rendered-before, count, before)
	if rendered-before > half {
		t.Errorf("%d large Deployments got a Work before the ConfigMap was in its member, want at most %d", rendered-before, half)
	}
}

// largeWorks is how many Works the templates of a namespace have for a member.
func largeWorks(t *testing.T, fleet *fleettest.Fleet, member *fleettest.Cluster, namespace string) int {
	t.Helper()
	var works metav1.PartialObjectMetadataList
	works.SetGroupVersionKind(workv1alpha1.SchemeGroupVersion.WithKind("WorkList"))
	if err := fleet.Hub.List(t.Context(), &works, client.InNamespace(workv1alpha1.ExecutionNamespace(member.Name))); err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(works.Items, func(work metav1.PartialObjectMetadata) bool {
		return work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation] != namespace
	}))
}
