package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// ending is an interpreter that reads the end of objects of version v1 only, or fails to.
type ending struct {
	knowing
	endless error
	panics  bool
}

func (e ending) Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if e.panics {
		panic("an unexpected object")
	}
	done, _ := e.knowing.Finished(ctx, obj)
	return done && obj.GetAPIVersion() == "v1", e.endless
}

// translating has objects of v2 as objects of v1 in the control plane.
type translating struct {
	conversion.Unchanged
	away error
}

func (c translating) From(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.away != nil {
		return nil, c.away
	}
	obj = obj.DeepCopy()
	obj.SetAPIVersion("v1")
	return obj, nil
}

// run is a ConfigMap shop/a of a generation of its template, which has the uid u. The interpreter takes it for one that ended in the phase Done.
func run(generation, phase string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"phase": phase, "health": "Healthy"}}}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace("shop")
	obj.SetName("a")
	obj.SetAnnotations(map[string]string{workv1alpha1.TemplateUIDAnnotation: "u", workv1alpha1.TemplateGenerationAnnotation: generation})
	return obj
}

func ofVersion(version string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetAPIVersion(version)
	return obj
}

// reporting is a Work that reports a ConfigMap shop/a.
func reporting(run string) *workv1alpha1.Work {
	work := &workv1alpha1.Work{}
	work.Namespace, work.Name = theWork.Namespace, theWork.Name
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: seen("a", "").id, Finished: run, Health: workv1alpha1.ResourceHealthy, Status: &runtime.RawExtension{Raw: []byte(`{"phase":"before"}`)},
	}}
	return work
}

// observing is the observation of Works without queues.
func observing(interpreter StatusReader, adviser conversion.Adviser) (w *Works, published *[]string) {
	published = &[]string{}
	return &Works{
		interpreter: interpreter, runs: finished.New(interpreter), conversion: conversion.OrUnchanged(adviser),
		events: events.RecorderFunc(func(e events.Event) { *published = append(*published, e.String()) }),
	}, published
}

func TestTheRunThatAnObjectEnded(t *testing.T) {
	away := errors.New("away")
	for name, tc := range map[string]struct {
		interpreter ending
		conversion  translating
		before      string // what the Work reports
		object      *unstructured.Unstructured
		want        string
		failure     string // the event
	}{
		"it runs":                        {object: run("1", "Busy")},
		"it ended":                       {object: run("1", "Done"), want: "u/1"},
		"it ended, and that is known":    {object: run("1", "Done"), before: "u/1", want: "u/1"},
		"the next run":                   {object: run("2", "Busy"), before: "u/1"},
		"the next run ended":             {object: run("2", "Done"), before: "u/1", want: "u/2"},
		"in another version":             {object: ofVersion("v2", run("1", "Done")), want: "u/1"},
		"it cannot be read":              {object: run("1", "Done"), interpreter: ending{endless: away}, failure: "InterpretHealthFailed"},
		"nor whether it goes on":         {object: run("1", "Done"), before: "u/1", interpreter: ending{endless: away}, want: "u/1", failure: "InterpretHealthFailed"},
		"nor whether the next one ended": {object: run("2", "Done"), before: "u/1", interpreter: ending{endless: away}, failure: "InterpretHealthFailed"},
		"a panic":                        {object: run("1", "Done"), before: "u/1", interpreter: ending{panics: true}, want: "u/1", failure: "InterpretHealthFailed"},
		"a panic about the next one":     {object: run("2", "Done"), before: "u/1", interpreter: ending{panics: true}, failure: "InterpretHealthFailed"},
		"it cannot be converted":         {object: ofVersion("v2", run("1", "Done")), before: "u/1", conversion: translating{away: away}, want: "u/1", failure: "ReflectStatusFailed"},
		"and need not be":                {object: run("1", "Done"), conversion: translating{away: away}, want: "u/1", failure: "ReflectStatusFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			w, published := observing(tc.interpreter, tc.conversion)
			s := seen("a", "").observed
			s.object = tc.object
			got, _ := w.interpretOrPanic(t.Context(), reporting(tc.before), s)
			if got.finished != tc.want || got.removed {
				t.Errorf("it ended %q, and is removed: %v, want %q", got.finished, got.removed, tc.want)
			}
			if text := strings.Join(*published, "\n"); tc.failure != "" && !strings.Contains(text, "Warning "+tc.failure) || tc.failure == "" && strings.Contains(text, "Warning") {
				t.Errorf("the events are %q", *published)
			}
		})
	}
}

func TestFinishedBefore(t *testing.T) {
	stray := run("1", "Done")
	stray.SetAnnotations(nil)
	for name, tc := range map[string]struct {
		before string
		object *unstructured.Unstructured
		want   string
	}{
		"of the same run":    {"u/1", run("1", ""), "u/1"},
		"of another run":     {"u/1", run("2", ""), ""},
		"not ended":          {"", run("1", ""), ""},
		"of no template":     {"u/1", stray, ""},
		"not ended, of none": {"", stray, ""},
		"gone":               {"u/1", nil, ""},
	} {
		s := seen("a", "").observed
		s.object = tc.object
		if got := finishedBefore(reporting(tc.before), s); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := finishedBefore(reporting("u/1"), seen("b", "").observed); got != "" {
		t.Errorf("another object ended %q", got)
	}
}

func TestWhatIsGoneIsRecalled(t *testing.T) {
	manifest := func(obj *unstructured.Unstructured) []byte {
		raw, err := obj.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	noWork := func() *workv1alpha1.Work { w := reporting(""); w.Status.ManifestStatuses = nil; return w }
	left := noWork()
	left.Annotations = map[string]string{workv1alpha1.FinishedAnnotation: "u/1"}
	for name, tc := range map[string]struct {
		work     *workv1alpha1.Work
		last     *unstructured.Unstructured // in which state it went
		manifest []byte
		want     workv1alpha1.ManifestStatus
	}{
		"as the Work reports it": {work: reporting("u/1"), manifest: manifest(run("1", "")), want: status("u/1", `{"phase":"before"}`, "Healthy")},
		"as it went":             {work: noWork(), last: run("1", "Done"), manifest: manifest(run("1", "")), want: status("u/1", `{"phase":"Done"}`, "Healthy")},
		"before it left":         {work: left, manifest: manifest(run("1", "")), want: status("u/1", "", "Unknown")},
		"before its end":         {work: noWork(), last: run("1", "Busy"), manifest: manifest(run("1", "")), want: status("", "", "Unknown")},
		"in an earlier run":      {work: reporting("u/1"), last: run("1", "Done"), manifest: manifest(run("2", "")), want: status("", "", "Unknown")},
		"without a manifest":     {work: reporting("u/1"), want: status("", "", "Unknown")},
		"with a broken one":      {work: reporting("u/1"), manifest: []byte(`{`), want: status("", "", "Unknown")},
	} {
		t.Run(name, func(t *testing.T) {
			w, published := observing(ending{}, nil)
			if tc.last != nil {
				w.runs.Changed(t.Context(), objectcache.Change{Work: theWork, Gone: true, Last: func() (*unstructured.Unstructured, bool) { return tc.last, true }})
			}
			s := seen("a", "").observed
			s.object, s.manifest = nil, tc.manifest
			found, err := w.interpretOrPanic(t.Context(), tc.work, s)
			if err != nil || len(*published) > 0 {
				t.Errorf("%v, events %q", err, *published)
			}
			if diff := cmp.Diff([]workv1alpha1.ManifestStatus{tc.want}, findings{objects: []finding{found}}.manifestStatuses(true)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// status is what is reported of a ConfigMap shop/a that is gone, removed if it ended a run.
func status(run, text string, health workv1alpha1.ResourceHealth) workv1alpha1.ManifestStatus {
	s := workv1alpha1.ManifestStatus{Identifier: seen("a", "").id, Finished: run, Removed: run != "", Health: health}
	if text != "" {
		s.Status = &runtime.RawExtension{Raw: []byte(text)}
	}
	return s
}

// gone is a finding about a ConfigMap that ran to its end and was removed.
func gone(name string, health workv1alpha1.ResourceHealth) finding {
	f := missing(name)
	f.health, f.finished, f.removed = health, "u/1", true
	return f
}

func TestConditionsOfWhatIsRemoved(t *testing.T) {
	const healthy, unhealthy = workv1alpha1.ResourceHealthy, workv1alpha1.ResourceUnhealthy
	removed := "Ran to its end, was removed there and is not made again: ConfigMap shop/a"
	for name, tc := range map[string]struct {
		objects                []finding
		available, progressing string // status and reason
		message                string // of Available
	}{
		"It":               {[]finding{gone("a", healthy)}, "True ResourcesAvailable", "False RolloutFinished", removed},
		"ItFailed":         {[]finding{gone("a", unhealthy)}, "True ResourcesAvailable", "False RolloutFinished", removed},
		"ItWasNeverSeen":   {[]finding{gone("a", workv1alpha1.ResourceUnknown)}, "True ResourcesAvailable", "False RolloutFinished", removed},
		"AnotherIsThere":   {[]finding{gone("a", healthy), seen("b", healthy)}, "True ResourcesAvailable", "False RolloutFinished", removed},
		"AnotherRolls":     {[]finding{gone("a", healthy), seen("b", unhealthy)}, "True ResourcesAvailable", "True RollingOut", removed},
		"AnotherIsMissing": {[]finding{gone("a", healthy), missing("b")}, "False ResourcesMissing", "True RollingOut", "Not on the managed cluster: ConfigMap shop/b"},
		"Two":              {[]finding{gone("a", healthy), gone("b", healthy)}, "True ResourcesAvailable", "False RolloutFinished", removed + ", ConfigMap shop/b"},
		"None":             {[]finding{seen("a", healthy)}, "True ResourcesAvailable", "False RolloutFinished", workv1alpha1.Available(2).Message},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Works{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), degradedAfter: func() time.Duration { return 0 }, unhealthySince: map[types.NamespacedName]map[string]time.Time{}}
			w.diagnose(reporting(""), tc.objects[:1])
			got := &workv1alpha1.WorkStatus{Conditions: []metav1.Condition{workv1alpha1.Applied(2)}}
			findings{generation: 2, objects: tc.objects}.report(nil, got)
			for kind, want := range map[string]string{workv1alpha1.WorkAvailable: tc.available, workv1alpha1.WorkProgressing: tc.progressing, workv1alpha1.WorkDegraded: "False ResourcesHealthy"} {
				if c := meta.FindStatusCondition(got.Conditions, kind); string(c.Status)+" "+c.Reason != want {
					t.Errorf("%s is %+v, want %s", kind, c, want)
				}
			}
			if c := meta.FindStatusCondition(got.Conditions, workv1alpha1.WorkAvailable); c.Message != tc.message {
				t.Errorf("the message is %q, want %q", c.Message, tc.message)
			}
		})
	}
}

// TestALostMemberKeepsItsRuns: what ran to its end does not run again because its cluster cannot be seen for a while.
func TestALostMemberKeepsItsRuns(t *testing.T) {
	got := &workv1alpha1.WorkStatus{ManifestStatuses: findings{objects: []finding{gone("a", workv1alpha1.ResourceHealthy)}}.manifestStatuses(true)}
	unreachable(1, "member1")(nil, got)
	reachableAgain(nil, got)
	if s := got.ManifestStatuses[0]; s.Finished != "u/1" || !s.Removed || s.Health != workv1alpha1.ResourceHealthy {
		t.Errorf("it reports %+v", s)
	}
}

// TestARunThatEndedStaysInTheStatus of its Work when a cleaner deletes the object.
func TestARunThatEndedStaysInTheStatus(t *testing.T) {
	s := newBench(t, knowing{})
	go func() {
		for {
			select {
			case <-s.news:
			case <-t.Context().Done():
				return
			}
		}
	}()
	work := &workv1alpha1.Work{}
	if err := s.hub.Get(t.Context(), theWork, work); err != nil {
		t.Fatal(err)
	}
	raw, err := run("1", "").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	work.Spec.Workload.Manifests[0].Raw = raw
	if err := s.hub.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	event := func(version int, phase string) string {
		text := strings.Replace(configMap(version, "Healthy"), fmt.Sprintf(`"phase":"p%d"`, version), fmt.Sprintf(`"phase":%q`, phase), 1)
		return strings.Replace(text, `"annotations":{`, `"annotations":{"resourcetemplate.karmada.io/uid":"u","resourcetemplate.karmada.io/generation":"1",`, 1)
	}
	is := func(finished string, removed bool, health workv1alpha1.ResourceHealth) func(workv1alpha1.WorkStatus) bool {
		return func(status workv1alpha1.WorkStatus) bool {
			return len(status.ManifestStatuses) == 1 && status.ManifestStatuses[0].Finished == finished && status.ManifestStatuses[0].Removed == removed &&
				status.ManifestStatuses[0].Health == health && meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkAvailable)
		}
	}
	s.applied()
	s.events <- event(5, "Busy")
	s.events <- allKnown
	s.wait("it runs", is("", false, workv1alpha1.ResourceHealthy))
	s.events <- event(11, "Done")
	s.wait("it ended", is("u/1", false, workv1alpha1.ResourceHealthy))
	s.events <- strings.Replace(event(12, "Done"), "MODIFIED", "DELETED", 1)
	s.wait("it is removed, and not missing", is("u/1", true, workv1alpha1.ResourceHealthy))
}
