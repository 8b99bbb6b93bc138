package history

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// deployment is one with an image, and what is no part of a revision.
func deployment(image string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web"}},
		"spec":     map[string]any{"replicas": replicas, "image": image},
	}}
}

func live(image string, replicas int64) *unstructured.Unstructured {
	d := deployment(image, replicas)
	d.SetUID("u")
	d.SetResourceVersion("7")
	d.SetLabels(map[string]string{"app": "web", "later": "x", policyv1alpha1.PropagationPolicyPermanentIDLabel: "id"})
	d.SetAnnotations(map[string]string{policyv1alpha1.PropagationPolicyNameAnnotation: "p", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
	d.Object["status"] = map[string]any{"replicas": int64(3)}
	return d
}

func TestWhatUndoWrites(t *testing.T) {
	want := live("web:1", 2)
	want.SetLabels(map[string]string{"app": "web", policyv1alpha1.PropagationPolicyPermanentIDLabel: "id"})
	if got := merged(live("web:2", 3), deployment("web:1", 2)); !cmp.Equal(got, want) {
		t.Errorf("it differs: %s", cmp.Diff(want, got))
	}
	autoscaled := live("web:2", 9)
	annotations := autoscaled.GetAnnotations()
	annotations[policyv1alpha1.AutoscaledAnnotation] = "true"
	autoscaled.SetAnnotations(annotations)
	was := deployment("web:1", 2)
	unstructured.RemoveNestedField(was.Object, "spec", "replicas")
	if replicas, _, err := unstructured.NestedInt64(merged(autoscaled, was).Object, "spec", "replicas"); err != nil || replicas != 9 {
		t.Errorf("the replicas of an autoscaler become %d (%v)", replicas, err)
	}
}

// TestUndoOfAPolicyWithoutPlacement: a revision has an empty placement, whether the policy has one or not.
func TestUndoOfAPolicyWithoutPlacement(t *testing.T) {
	policy := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy", "metadata": map[string]any{"name": "try"}, "spec": spec,
		}}
	}
	resource := policyv1alpha1.GroupVersion.WithResource(policyv1alpha1.ResourcePluralClusterPropagationPolicy)
	for name, spec := range map[string]map[string]any{"LeftOut": {"propagateDeps": true}, "Empty": {"propagateDeps": true, "placement": map[string]any{}}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w := &writer{client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), policy(spec)), streams: cli.Streams{Out: &out, Err: &out}}
			was := policy(map[string]any{"propagateDeps": true, "placement": map[string]any{}})
			if err := w.bringBack(t.Context(), resource, was.Object, true); err != nil || w.changed != 0 || out.Len() > 0 {
				t.Errorf("%d changes, %v: %s", w.changed, err, out.String())
			}
		})
	}
}

func TestUndoAgainstAChangeOfOthers(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), live("web:2", 3))
	client.PrependReactor("update", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(deployments.GroupResource(), "web", nil)
	})
	var out bytes.Buffer
	w := &writer{client: client, streams: cli.Streams{Out: &out, Err: &out}}
	err := w.bringBack(t.Context(), deployments, deployment("web:1", 2).Object, false)
	if err == nil || !strings.HasSuffix(err.Error(), "was not overwritten\nrun the command again") || w.changed != 0 {
		t.Errorf("the error is %v", err)
	}
	sent := slices.IndexFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "update" })
	if sent < 0 || client.Actions()[sent].(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured).GetResourceVersion() != "7" {
		t.Error("the update has no resource version, so that a change of others would be lost")
	}
}

func TestRowsOfAHistory(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := metav1.NewTime(now.Add(-90 * time.Second))
	for _, tc := range []struct {
		revision fleetv1alpha1.Revision
		want     []string
	}{
		{fleetv1alpha1.Revision{Revision: 1, Time: &ago, Manager: "kubectl"}, []string{"1", "90s", "(kubectl)", "-"}},
		{fleetv1alpha1.Revision{Revision: 2, Current: true, Time: &ago, User: "alice", Changes: []fleetv1alpha1.RevisionChange{
			{Part: fleetv1alpha1.RevisionTemplate, Text: "image a → b"}, {Part: fleetv1alpha1.RevisionPolicy, Hidden: true},
		}}, []string{"2*", "90s", "alice", "image a → b; policy (hidden)"}},
		{fleetv1alpha1.Revision{Current: true}, []string{"now*", "-", "-", "-"}},
	} {
		if got := row(tc.revision, now); !cmp.Equal(got, tc.want) {
			t.Errorf("the row is %q, want %q", got, tc.want)
		}
	}
}

// TestRevisionsOfADifference: both revisions may be words of their own, wherever the object is named.
func TestRevisionsOfADifference(t *testing.T) {
	for line, want := range map[string]struct {
		object   []string
		from, to int64
		refusal  string
	}{
		"deploy/web --diff 3,5":                  {object: []string{"deploy/web"}, from: 3, to: 5},
		"deploy/web --diff 3 5":                  {object: []string{"deploy/web"}, from: 3, to: 5},
		"--diff 3 5 deploy/web":                  {object: []string{"deploy/web"}, from: 3, to: 5},
		"--diff 3 5 deploy web":                  {object: []string{"deploy", "web"}, from: 3, to: 5},
		"deploy web --diff 3 5":                  {object: []string{"deploy", "web"}, from: 3, to: 5},
		"deploy web --diff=3 5 -n x":             {object: []string{"deploy", "web"}, from: 3, to: 5},
		"deploy --diff 3 5":                      {object: []string{"deploy", "5"}, from: 3}, // an object may have the name 5
		"deploy/web --diff 3 --diff 5":           {object: []string{"deploy/web"}, from: 3, to: 5},
		"deploy/web --diff 3":                    {object: []string{"deploy/web"}, from: 3},
		"deploy/web --diff 3 3":                  {object: []string{"deploy/web"}, from: 3, to: 3},
		"deploy/web":                             {object: []string{"deploy/web"}},
		"deploy/web --diff 3 5 7":                {refusal: "--diff compares two revisions, or one with what is now, not 3\n"},
		"deploy/web --diff 3,5 7":                {refusal: "not 3\n"},
		"deploy/web --diff=":                     {refusal: "not 0\n"},
		"deploy/web --diff 3 five":               {refusal: `and "five" is none`},
		"deploy/web --diff 3-5":                  {refusal: `and "3-5" is none`},
		"deploy/web --diff=-3":                   {refusal: `and "-3" is none`},
		"deploy/web --diff 3 db/five":            {refusal: `and "db/five" is none`},
		"deploy/web --diff 99999999999999999999": {refusal: "there is no revision 99999999999999999999"},
	} {
		o := &historyOptions{}
		c := &cobra.Command{RunE: func(cmd *cobra.Command, args []string) error {
			object, err := o.revisions(args, cmd.Flags().Changed("diff"))
			if err == nil && !slices.Equal(object, want.object) {
				t.Errorf("%s: the object is %q, want %q", line, object, want.object)
			}
			return err
		}, SilenceErrors: true, SilenceUsage: true}
		c.Flags().StringSliceVar(&o.diff, "diff", nil, "")
		c.Flags().StringP("namespace", "n", "", "")
		c.SetArgs(strings.Fields(line))
		err := c.ExecuteContext(t.Context())
		if want.refusal != "" {
			if err == nil || !strings.Contains(err.Error(), want.refusal) {
				t.Errorf("%s: the error is %v, want %q", line, err, want.refusal)
			}
			continue
		}
		if err != nil || o.from != want.from || o.to != want.to || o.compare != strings.Contains(line, "--diff") {
			t.Errorf("%s: %d and %d, compared %v, error %v", line, o.from, o.to, o.compare, err)
		}
	}
}

func TestPrevious(t *testing.T) {
	revisions := func(current int64, all ...int64) []fleetv1alpha1.Revision {
		var list []fleetv1alpha1.Revision
		for _, number := range all {
			list = append(list, fleetv1alpha1.Revision{Revision: number, Current: number == current})
		}
		return list
	}
	for want, list := range map[int64][]fleetv1alpha1.Revision{0: revisions(0, 0), 2: revisions(3, 1, 2, 3), 3: revisions(0, 1, 3, 0), 4: revisions(1, 1, 4)} {
		if got := previous(list); got != want {
			t.Errorf("previous of %+v is %d, want %d", list, got, want)
		}
	}
}

func TestNewestDeletion(t *testing.T) {
	object := func(namespace, name string) fleetv1alpha1.ObjectIdentity {
		return fleetv1alpha1.ObjectIdentity{Kind: "ConfigMap", Namespace: namespace, Name: name}
	}
	all := []fleetv1alpha1.DeletedObject{{Object: object("a", "x"), UID: "2"}, {Object: object("", "y"), UID: "3"}, {Object: object("a", "x"), UID: "1"}}
	seen := map[fleetv1alpha1.ObjectIdentity]bool{}
	if got := newestOf(all, seen, false); len(got) != 2 || got[0].UID != "2" {
		t.Errorf("the newest are %+v", got)
	}
	if got := newestOf([]fleetv1alpha1.DeletedObject{{Object: object("a", "x"), UID: "0"}, {Object: object("a", "z"), UID: "4"}}, seen, false); len(got) != 1 || got[0].UID != "4" {
		t.Errorf("the newest of the next page are %+v", got)
	}
	if got := newestOf(all, map[fleetv1alpha1.ObjectIdentity]bool{}, true); len(got) != 1 || got[0].UID != "3" {
		t.Errorf("the newest cluster-scoped are %+v", got)
	}
}

func TestRowsOfATimeline(t *testing.T) {
	e := fleetv1alpha1.TimelineEntry{
		Source: fleetv1alpha1.TimelineEvent, Object: fleetv1alpha1.ObjectIdentity{Kind: "Deployment", Namespace: "shop", Name: "web"}, Manager: "scheduler",
		Reason: "ScheduleBindingSucceed", Message: strings.Repeat("word\n", 100),
	}
	got := entryRow(e, true)
	if got[1] != "shop deployment/web" || got[2] != "(scheduler)" || !strings.HasPrefix(got[3], "ScheduleBindingSucceed: word word") || len([]rune(got[3])) != widest {
		t.Errorf("the row is %q", got)
	}
}
