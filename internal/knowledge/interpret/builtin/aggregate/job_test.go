package aggregate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	jobregistry "k8s.io/kubernetes/pkg/registry/batch/job"

	batchv1 "k8s.io/api/batch/v1"
)

const (
	complete     = "succeeded: 1, startTime: '2026-05-01T10:00:00Z', completionTime: '2026-05-01T10:05:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]"
	completeLate = "succeeded: 2, startTime: '2026-05-01T09:00:00Z', completionTime: '2026-05-01T10:09:00Z', conditions: [{type: Complete, status: 'True'}]"
	running      = "active: 1, failed: 1, startTime: '2026-05-01T10:00:00Z'"
	broken       = "failed: 3, startTime: '2026-05-01T10:00:00Z', conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded}]"
	enough       = "active: 1, startTime: '2026-05-01T10:00:00Z', conditions: [{type: SuccessCriteriaMet, status: 'True'}]"
	failing      = "active: 1, ready: 1, terminating: 1, startTime: '2026-05-01T10:00:00Z', conditions: [{type: FailureTarget, status: 'True', reason: PodFailurePolicy, message: exit code 3}]"
	suspended    = "conditions: [{type: Suspended, status: 'True', reason: JobSuspended}]"
	stopped      = "conditions: [{type: Failed, status: 'True'}]"
)

// TestAggregateJobs also validates every change with the API server's own rules.
func TestAggregateJobs(t *testing.T) {
	tests := map[string]struct {
		template       string
		items          []string
		conditions     string
		start, end     string
		active, failed int64
		succeeded      int64
	}{
		"all complete": {
			"", []string{complete, completeLate}, "SuccessCriteriaMet Complete",
			"2026-05-01T09:00:00Z", "2026-05-01T10:09:00Z", 0, 0, 3,
		},
		"one complete, one running": {
			"", []string{complete, running}, "", "2026-05-01T10:00:00Z", "", 1, 1, 1,
		},
		"one complete, one silent": {
			"", []string{complete, ""}, "", "2026-05-01T10:00:00Z", "", 0, 0, 1,
		},
		"one failed, one running": {
			"", []string{broken, running}, "FailureTarget Failed", "2026-05-01T10:00:00Z", "", 0, 4, 0,
		},
		"one failed, one complete": {
			"", []string{broken, complete}, "FailureTarget Failed", "2026-05-01T10:00:00Z", "", 0, 3, 1,
		},
		"one about to fail": {
			"", []string{failing, running}, "FailureTarget", "2026-05-01T10:00:00Z", "", 2, 1, 0,
		},
		"suspended": {
			"", []string{suspended, suspended}, "Suspended", "", "", 0, 0, 0,
		},
		"one suspended, one complete": {
			"", []string{suspended, complete}, "Suspended", "2026-05-01T10:00:00Z", "", 0, 0, 1,
		},
		"failed before it started": {
			"", []string{stopped}, "FailureTarget Failed", "2026-05-01T12:00:00Z", "", 0, 0, 0,
		},
		"success criteria met everywhere": {
			"", []string{enough, enough}, "SuccessCriteriaMet", "2026-05-01T10:00:00Z", "", 2, 0, 0,
		},
		"start time stays": {
			"{active: 1, startTime: '2026-05-01T10:00:00Z'}", []string{complete, completeLate}, "SuccessCriteriaMet Complete",
			"2026-05-01T10:00:00Z", "2026-05-01T10:09:00Z", 0, 0, 3,
		},
		"counters do not fall when a cluster leaves": {
			"{failed: 5, succeeded: 4, startTime: '2026-05-01T10:00:00Z'}", []string{running}, "",
			"2026-05-01T10:00:00Z", "", 1, 5, 4,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "batch/v1/Job", "{metadata: {name: work, namespace: shop, resourceVersion: '1'}, spec: {parallelism: 2, completions: 4, template: {spec: {containers: []}}}}")
			if tc.template != "" {
				template.Object["status"] = fields(t, tc.template)
			}
			got := aggregate(t, template, clusters(t, tc.items)...)
			var conditions []string
			list, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
			for _, entry := range list {
				conditions = append(conditions, entry.(map[string]any)["type"].(string))
			}
			if joined := strings.Join(conditions, " "); joined != tc.conditions {
				t.Errorf("conditions are %q, want %q", joined, tc.conditions)
			}
			start, _, _ := unstructured.NestedString(got.Object, "status", "startTime")
			end, _, _ := unstructured.NestedString(got.Object, "status", "completionTime")
			if start != tc.start || end != tc.end {
				t.Errorf("ran from %s to %s, want %s to %s", start, end, tc.start, tc.end)
			}
			for counter, want := range map[string]int64{"active": tc.active, "failed": tc.failed, "succeeded": tc.succeeded} {
				if n := number(got, "status", counter); n != want {
					t.Errorf("%s is %d, want %d", counter, n, want)
				}
			}
			acceptedByServer(t, template, got)
		})
	}
	t.Run("what a cluster says is kept with its name", func(t *testing.T) {
		template := ofKind(t, "batch/v1/Job", "{metadata: {name: work, namespace: shop, resourceVersion: '1'}, spec: {parallelism: 2, completions: 4, template: {spec: {containers: []}}}}")
		for want, items := range map[string][]string{
			"FailureTarget True JobFailed: Job has failed in clusters: m1 (m1: BackoffLimitExceeded)":                {broken, running},
			"FailureTarget True JobFailed: Job is about to fail in clusters: m2 (m2: PodFailurePolicy: exit code 3)": {running, failing},
			"Suspended True JobSuspended: Job is suspended in clusters: m1":                                          {suspended, complete},
			"Suspended False PartlySuspended: Job is suspended in clusters: m1":                                      {suspended, running},
		} {
			expectCondition(t, aggregate(t, template, clusters(t, items)...), want)
		}
		resumed := aggregate(t, aggregate(t, template, clusters(t, []string{suspended})...), clusters(t, []string{running})...)
		expectCondition(t, resumed, "Suspended False JobResumed: Job is resumed in every cluster.")
		ends := aggregate(t, template, clusters(t, []string{broken, failing})...)
		if ready, terminating := number(ends, "status", "ready"), number(ends, "status", "terminating"); ready+terminating != 0 {
			t.Errorf("a Job that has failed has %d ready and %d terminating pods", ready, terminating)
		}
		acceptedByServer(t, template, ends)
	})
	t.Run("a finished job never changes", func(t *testing.T) {
		template := ofKind(t, "batch/v1/Job", "{status: {failed: 1, conditions: [{type: Failed, status: 'True'}]}}")
		if got := aggregate(t, template, clusters(t, []string{complete})...); got != template {
			t.Errorf("got %v", got.Object["status"])
		}
	})
}

// expectCondition expects a condition of a template, as "type status reason: message".
func expectCondition(t *testing.T, obj *unstructured.Unstructured, want string) {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	var found []string
	for _, entry := range list {
		c := entry.(map[string]any)
		found = append(found, fmt.Sprintf("%v %v %v: %v", c["type"], c["status"], c["reason"], c["message"]))
	}
	if !slices.Contains(found, want) {
		t.Errorf("no condition is %q:\n%s", want, strings.Join(found, "\n"))
	}
}

func acceptedByServer(t *testing.T, before, after *unstructured.Unstructured) {
	t.Helper()
	ctx := genericapirequest.NewDefaultContext()
	if errs := jobregistry.StatusStrategy.ValidateUpdate(ctx, internalJob(t, after), internalJob(t, before)); len(errs) > 0 {
		t.Errorf("an API server would refuse the status: %v", errs.ToAggregate())
	}
}

func internalJob(t *testing.T, obj *unstructured.Unstructured) *batch.Job {
	t.Helper()
	versioned, internal := &batchv1.Job{}, &batch.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, versioned); err != nil {
		t.Fatal(err)
	}
	legacyscheme.Scheme.Default(versioned)
	if err := legacyscheme.Scheme.Convert(versioned, internal, nil); err != nil {
		t.Fatal(err)
	}
	return internal
}
