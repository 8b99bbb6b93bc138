package eviction

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

const flink = `{"jobStatus": {"jobId": "d4a1", "savepoints": 12345678901, "ratio": 0.5, "state": "NOT A LABEL"}, "ok": true, "none": null,
	"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}`

func preserve(path, label, status string) (map[string]string, error) {
	return PreserveState(&policyv1alpha1.StatePreservation{Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: label, JSONPath: path}}},
		&runtime.RawExtension{Raw: []byte(status)})
}

func TestPreserveState(t *testing.T) {
	tests := map[string]struct{ path, want, wrong string }{
		"Field":            {"{ .jobStatus.jobId }", "d4a1", ""},
		"WithoutBraces":    {".jobStatus.jobId", "", "label value"},
		"LargeNumber":      {"{.jobStatus.savepoints}", "12345678901", ""},
		"Fraction":         {"{.jobStatus.ratio}", "0.5", ""},
		"Boolean":          {"{.ok}", "true", ""},
		"Index":            {"{.conditions[-1].type}", "B", ""},
		"Filter":           {`{.conditions[?(@.type=="A")].status}`, "True", ""},
		"Text":             {"job-{.jobStatus.jobId}", "job-d4a1", ""},
		"Missing":          {"{.jobStatus.id}", "", "not found"},
		"NoElement":        {"{.conditions[7].type}", "", "out of bounds"},
		"NoLabelValue":     {"{.jobStatus.state}", "", "label value"},
		"Object":           {"{.jobStatus}", "", "label value"},
		"Root":             {"{}{.}", "", "not found"},
		"TwoElements":      {"{.conditions[*].type}", "", "label value"},
		"RecursiveDescent": {"{..type}", "", "not supported"},
		"Range":            {"{range .conditions[*]}{.type}{end}", "", "not supported"},
		"Union":            {"{.conditions[0,0].type}", "", "not supported"},
		"UnionInAFilter":   {`{.conditions[?(@['type','type']=="A")].status}`, "", "not supported"},
		"Repeated":         {strings.Repeat("{.conditions[*]}", 16), "", "more than 63 bytes"},
		"Unclosed":         {"{.a", "", "unclosed action"},
		"Long":             {"{." + strings.Repeat("a", maxStatePath) + "}", "", "at most 256"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := preserve(test.path, "example.com/state", flink)
			if test.wrong == "" {
				if diff := cmp.Diff(map[string]string{"example.com/state": test.want}, got); diff != "" || err != nil {
					t.Errorf("error %v, labels (-want +got):\n%s", err, diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wrong) || got != nil {
				t.Errorf("labels %v, error %v, want %q", got, err, test.wrong)
			}
		})
	}
}

func TestPreserveStateRefusesLabels(t *testing.T) {
	for _, label := range []string{"", "not a label", workv1alpha1.ManagedLabel} {
		if got, err := preserve("{.ok}", label, flink); err == nil {
			t.Errorf("%q: %v", label, got)
		}
	}
	rules := make([]policyv1alpha1.StatePreservationRule, MaxStateRules+1)
	if _, err := PreserveState(&policyv1alpha1.StatePreservation{Rules: rules}, &runtime.RawExtension{Raw: []byte(flink)}); err == nil {
		t.Error("too many rules are no error")
	}
	if _, err := PreserveState(&policyv1alpha1.StatePreservation{Rules: rules[:1]}, nil); err == nil {
		t.Error("no status is no error")
	}
	if _, err := preserve("{.ok}", "a", "{"); err == nil {
		t.Error("a status that cannot be read is no error")
	}
	if got, err := PreserveState(nil, nil); got != nil || err != nil {
		t.Errorf("without rules: %v, %v", got, err)
	}
}

// FuzzPreserveState: paths and statuses are written by tenants; the result is nothing, or a label.
func FuzzPreserveState(f *testing.F) {
	for _, path := range []string{"{.a}", `{.a[?(@.b=="c")].d}`, "{.a[0:10:2]}", "{.a[*].b}", "{..}", "{range .a[*]}{.b}{end}", "{['a','b']}", `{"text"}{.a.b}`} {
		f.Add(path, `{"a": [{"b": "c", "d": 1}]}`)
	}
	f.Fuzz(func(t *testing.T, path, status string) {
		var labels map[string]string
		var err error
		bounded.Run(t, func() { labels, err = preserve(path, "a", status) })
		if err == nil && len(validation.IsValidLabelValue(labels["a"])) > 0 {
			t.Errorf("%q is no label value", labels["a"])
		}
	})
}
