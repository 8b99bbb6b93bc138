package enroll

import (
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestParseTaint(t *testing.T) {
	taint := func(key, value, effect string) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	}
	for text, want := range map[string]membership.TaintEdit{
		"a=b:NoSchedule":       {Taint: taint("a", "b", "NoSchedule")},
		"x.io/a:NoExecute":     {Taint: taint("x.io/a", "", "NoExecute")},
		"a:PreferNoSchedule-":  {Taint: taint("a", "", "PreferNoSchedule"), Remove: true},
		"a-":                   {Taint: taint("a", "", ""), Remove: true},
		"with-dash:NoSchedule": {Taint: taint("with-dash", "", "NoSchedule")},
	} {
		got, err := membership.ParseTaint(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for text, reason := range map[string]string{
		"a":                "effect",
		"a=b":              "effect",
		"a:Never":          "effect",
		"a:Never-":         "effect",
		":NoSchedule":      "key",
		"a b:NoSchedule":   "key",
		"a=b c:NoSchedule": "value",
	} {
		if _, err := membership.ParseTaint(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, want a complaint about the %s", text, err, reason)
		}
	}
}

func TestEditTaints(t *testing.T) {
	theirs := corev1.Taint{Key: "theirs", Value: "v", Effect: corev1.TaintEffectNoExecute}
	cordon := corev1.Taint{Key: "cluster.karmada.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}
	edit := func(text string) membership.TaintEdit {
		e, err := membership.ParseTaint(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	overwrite := edit("theirs=w:NoExecute")
	overwrite.Overwrite = true
	cases := map[string]struct {
		before  []corev1.Taint
		edits   []membership.TaintEdit
		want    []corev1.Taint
		changed bool
		fails   string
	}{
		"Cordon":         {[]corev1.Taint{theirs}, []membership.TaintEdit{membership.Cordon(false)}, []corev1.Taint{theirs, cordon}, true, ""},
		"CordonTwice":    {[]corev1.Taint{cordon}, []membership.TaintEdit{membership.Cordon(false)}, []corev1.Taint{cordon}, false, ""},
		"Uncordon":       {[]corev1.Taint{cordon, theirs}, []membership.TaintEdit{membership.Cordon(true)}, []corev1.Taint{theirs}, true, ""},
		"UncordonTwice":  {nil, []membership.TaintEdit{membership.Cordon(true)}, nil, false, ""},
		"RemoveByKey":    {[]corev1.Taint{theirs}, []membership.TaintEdit{edit("theirs-")}, nil, true, ""},
		"RemoveByEffect": {[]corev1.Taint{theirs}, []membership.TaintEdit{edit("theirs:NoSchedule-")}, []corev1.Taint{theirs}, false, ""},
		"OtherEffect": {[]corev1.Taint{theirs}, []membership.TaintEdit{edit("theirs=x:NoSchedule")},
			[]corev1.Taint{theirs, {Key: "theirs", Value: "x", Effect: corev1.TaintEffectNoSchedule}}, true, ""},
		"OtherValue": {[]corev1.Taint{theirs}, []membership.TaintEdit{edit("theirs=w:NoExecute")}, []corev1.Taint{theirs}, false, "--overwrite"},
		"Overwrite": {[]corev1.Taint{theirs}, []membership.TaintEdit{overwrite},
			[]corev1.Taint{{Key: "theirs", Value: "w", Effect: corev1.TaintEffectNoExecute}}, true, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}, Spec: clusterv1alpha1.ClusterSpec{Taints: tc.before}})
			changed, err := membership.ChangeTaints(t.Context(), hub, "m1", tc.edits)
			if changed != tc.changed || (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("got %v, %v; want %v, %q", changed, err, tc.changed, tc.fails)
			}
			f := &fixture{t: t, hub: hub}
			if diff := cmp.Diff(tc.want, f.cluster().Spec.Taints); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := membership.ChangeTaints(t.Context(), newHub(t), "m9", []membership.TaintEdit{membership.Cordon(false)}); err == nil || !strings.Contains(err.Error(), `no cluster "m9"`) {
		t.Errorf("got %v", err)
	}
}
