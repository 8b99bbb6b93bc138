package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// Job adds up Jobs under the rules that an API server has for the status of one: a finished Job never changes again, counters of
// finished pods never decrease, the start time stays once it is set, and a Job that is finished has no active pods.
func (a Aggregation) Job(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	conditions := fields.Conditions(template)
	if len(items) == 0 || conditions["Complete"].Status == "True" || conditions["Failed"].Status == "True" {
		return template, nil
	}
	list := reportsOf[batchv1.JobStatus](items)
	sum, err := a.jobCounters(template, list)
	if err != nil {
		return nil, err
	}
	verdicts := slices.Concat([]verdict{currency(list)}, suspension(template, list), finishJob(template, sum, list))
	complete := find(verdicts, string(batchv1.JobComplete)) != nil
	if !complete {
		sum.CompletionTime = nil
	}
	if failed := find(verdicts, string(batchv1.JobFailed)) != nil; sum.StartTime == nil && (failed || complete) {
		sum.StartTime = &metav1.Time{Time: a.Clock.Now()}
	}
	if complete && (sum.CompletionTime == nil || sum.CompletionTime.Before(sum.StartTime)) { // an API server takes neither
		sum.CompletionTime = &metav1.Time{Time: a.Clock.Now()}
	}
	status, err := typedStatus(sum)
	if err != nil {
		return nil, err
	}
	a.setConditions(template, status, verdicts...)
	return interpret.WithStatus(template, status), nil
}

// jobCounters adds up the counters and finds the earliest start and the latest end.
func (a Aggregation) jobCounters(template *unstructured.Unstructured, list []report[batchv1.JobStatus]) (*batchv1.JobStatus, error) {
	sum := &batchv1.JobStatus{}
	created, now := template.GetCreationTimestamp(), a.Clock.Now()
	var active, succeeded, failed int64
	for i := range list {
		status := &list[i].status
		active = reports.Sum(active, int64(status.Active))
		succeeded = reports.Sum(succeeded, int64(status.Succeeded))
		failed = reports.Sum(failed, int64(status.Failed))
		sum.StartTime = earlier(sum.StartTime, after(created, reports.Past(status.StartTime, now)))
		sum.CompletionTime = later(sum.CompletionTime, reports.Past(status.CompletionTime, now))
	}
	sum.Active = int32(active)
	for i := range list {
		sum.Ready = plus(sum.Ready, list[i].status.Ready)
		sum.Terminating = plus(sum.Terminating, list[i].status.Terminating)
	}
	if sum.Ready != nil {
		*sum.Ready = min(*sum.Ready, sum.Active) // an API server refuses more
	}
	sum.Succeeded = int32(max(succeeded, reports.Counter(fields.StatusNumber(template, "succeeded"))))
	sum.Failed = int32(max(failed, reports.Counter(fields.StatusNumber(template, "failed"))))
	if mode, _, _ := unstructured.NestedString(template.Object, "spec", "completionMode"); mode == string(batchv1.IndexedCompletion) && len(list) == 1 {
		// Of several clusters each runs all indexes, and the API server takes no more of them than the Job has.
		sum.CompletedIndexes, sum.FailedIndexes = list[0].status.CompletedIndexes, list[0].status.FailedIndexes
	}
	suspended, _, _ := unstructured.NestedBool(template.Object, "spec", "suspend")
	if started := fields.StatusText(template, "startTime"); started != "" && !suspended {
		at, err := time.Parse(time.RFC3339, started)
		if err != nil {
			return nil, fmt.Errorf("reading the start time: %w", err)
		}
		sum.StartTime = &metav1.Time{Time: at}
	}
	return sum, nil
}

// finishJob returns the conditions of all reports: one failed copy fails the Job, and all of them complete it. An API server
// requires the reason to finish along with the end.
func finishJob(template *unstructured.Unstructured, sum *batchv1.JobStatus, list []report[batchv1.JobStatus]) []verdict {
	failed, failing := clustersOf(list, reportsJob(batchv1.JobFailed)), clustersOf(list, reportsJob(batchv1.JobFailureTarget))
	complete := clustersOf(list, reportsJob(batchv1.JobComplete))
	enough := clustersOf(list, reportsJob(batchv1.JobSuccessCriteriaMet))
	stamp := []string{"lastProbeTime"}
	switch {
	case len(failed) > 0:
		endPods(sum)
		message := "Job has failed in clusters: " + strings.Join(failed, ", ") + causes(list, batchv1.JobFailed)
		return []verdict{
			{kind: string(batchv1.JobFailureTarget), status: "True", reason: "JobFailed", message: message, stamp: stamp},
			{kind: string(batchv1.JobFailed), status: "True", reason: "JobFailed", message: message, stamp: stamp},
		}
	case len(failing) > 0 && fields.Conditions(template)[string(batchv1.JobSuccessCriteriaMet)].Status != "True": // it cannot have both
		message := "Job is about to fail in clusters: " + strings.Join(failing, ", ") + causes(list, batchv1.JobFailureTarget)
		return []verdict{{kind: string(batchv1.JobFailureTarget), status: "True", reason: "JobFailed", message: message, stamp: stamp}}
	case len(complete) == len(list):
		endPods(sum)
		message := "Job has completed in every cluster."
		return []verdict{
			{kind: string(batchv1.JobSuccessCriteriaMet), status: "True", reason: "Completed", message: message, stamp: stamp},
			{kind: string(batchv1.JobComplete), status: "True", reason: "Completed", message: message, stamp: stamp},
		}
	case len(enough) == len(list):
		message := "Job has met its success criteria in every cluster."
		return []verdict{
			{kind: string(batchv1.JobSuccessCriteriaMet), status: "True", reason: "SuccessCriteriaMet", message: message, stamp: stamp},
		}
	default:
		return nil
	}
}

// endPods: an API server refuses pods of a Job that has ended.
func endPods(sum *batchv1.JobStatus) {
	sum.Active, sum.Terminating = 0, nil
	if sum.Ready != nil {
		sum.Ready = new(int32)
	}
}

// suspension is the condition Suspended: true while no copy that has not ended runs, false after that.
func suspension(template *unstructured.Unstructured, list []report[batchv1.JobStatus]) []verdict {
	suspended := clustersOf(list, reportsJob(batchv1.JobSuspended))
	running := clustersOf(list, func(r *report[batchv1.JobStatus]) bool {
		return !reportsJob(batchv1.JobSuspended)(r) && !reportsJob(batchv1.JobComplete)(r) && !reportsJob(batchv1.JobFailed)(r)
	})
	_, before := fields.Conditions(template)[string(batchv1.JobSuspended)]
	v := verdict{kind: string(batchv1.JobSuspended), stamp: []string{"lastProbeTime"}}
	switch {
	case len(suspended) > 0 && len(running) == 0:
		v.status, v.reason, v.message = "True", "JobSuspended", "Job is suspended in clusters: "+strings.Join(suspended, ", ")
	case len(suspended) > 0:
		v.status, v.reason, v.message = "False", "PartlySuspended", "Job is suspended in clusters: "+strings.Join(suspended, ", ")
	case before:
		v.status, v.reason, v.message = "False", "JobResumed", "Job is resumed in every cluster."
	default:
		return nil
	}
	return []verdict{v}
}

// causes are the reasons and messages of a condition by cluster, of the first clusters that have it.
func causes(list []report[batchv1.JobStatus], kind batchv1.JobConditionType) string {
	var found []string
	for i := range list {
		for _, c := range list[i].status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue && c.Reason+c.Message != "" && len(found) < maxCauses {
				found = append(found, cause(list[i].cluster, c.Reason, c.Message))
			}
		}
	}
	return joined(found)
}

func reportsJob(kind batchv1.JobConditionType) func(*report[batchv1.JobStatus]) bool {
	return func(r *report[batchv1.JobStatus]) bool {
		for i := range r.status.Conditions {
			if r.status.Conditions[i].Type == kind {
				return r.status.Conditions[i].Status == corev1.ConditionTrue
			}
		}
		return false
	}
}

func earlier(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && b.Before(a) {
		return b
	}
	return a
}

// after returns a time, or that of the creation of the template if it is before: copies start later.
func after(created metav1.Time, at *metav1.Time) *metav1.Time {
	if at != nil && at.Before(&created) {
		return &created
	}
	return at
}

func later(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && a.Before(b) {
		return b
	}
	return a
}

// CronJob lists the active Jobs of every cluster and the newest times.
func (a Aggregation) CronJob(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list := reportsOf[batchv1.CronJobStatus](items)
	sum, now := &batchv1.CronJobStatus{}, a.Clock.Now()
	for i := range list {
		status := &list[i].status
		sum.Active = append(sum.Active, status.Active[:min(len(status.Active), bounds.MaxActiveJobs)]...)
		sum.LastScheduleTime = later(sum.LastScheduleTime, reports.Past(status.LastScheduleTime, now))
		sum.LastSuccessfulTime = later(sum.LastSuccessfulTime, reports.Past(status.LastSuccessfulTime, now))
	}
	status, err := typedStatus(sum)
	if err != nil {
		return nil, err
	}
	return interpret.WithStatus(template, status), nil
}
