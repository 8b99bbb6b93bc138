package drift_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func key(cluster, name string) drift.Key {
	return drift.Key{Cluster: cluster, Work: types.NamespacedName{Namespace: "karmada-es-" + cluster, Name: name},
		Object: fleetv1alpha1.ObjectIdentity{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}}
}

func field(path, found string, outcome fleetv1alpha1.DriftOutcome) fleetv1alpha1.DriftedField {
	return fleetv1alpha1.DriftedField{Path: path, Wanted: `"ours"`, Found: found, Manager: "kubectl", Outcome: outcome}
}

// TestEpisodes: the paths that are news are those that were not found before in the same episode, which ends an hour after the last
// difference.
func TestEpisodes(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	episodes := drift.New(clock)
	a, b := field("/data/a", `"1"`, ""), field("/data/b", `"2"`, "")
	for i, step := range []struct {
		after time.Duration
		do    func() []string
		want  []string
	}{
		{0, func() []string { return episodes.PutBack(key("m1", "x"), []fleetv1alpha1.DriftedField{a}) }, []string{"/data/a"}},
		{time.Minute, func() []string { return episodes.PutBack(key("m1", "x"), []fleetv1alpha1.DriftedField{a, b}) }, []string{"/data/b"}},
		{59 * time.Minute, func() []string { return episodes.PutBack(key("m1", "x"), []fleetv1alpha1.DriftedField{a}) }, nil},
		{time.Hour, func() []string { return episodes.PutBack(key("m1", "x"), []fleetv1alpha1.DriftedField{a}) }, []string{"/data/a"}},
		{0, func() []string { return episodes.PutBack(key("m1", "x"), nil) }, nil},
		{0, func() []string {
			return episodes.Stands(key("m1", "x"), []fleetv1alpha1.DriftedField{field("/data/b", "", fleetv1alpha1.DriftLeft)})
		}, []string{"/data/b"}},
		{2 * time.Hour, func() []string {
			return episodes.Stands(key("m1", "x"), []fleetv1alpha1.DriftedField{field("/data/b", "", fleetv1alpha1.DriftLeft)})
		}, nil},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if got := step.do(); !slices.Equal(got, step.want) {
			t.Errorf("step %d: the news are %q, want %q", i, got, step.want)
		}
	}
	list := episodes.List("")
	if len(list) != 1 || !drift.Stands(&list[0]) || list[0].PutBack != 1 || len(list[0].Fields) != 2 {
		t.Fatalf("the episodes are %+v", list)
	}
	if since, want := list[0].Since.Time, epoch.Add(2*time.Hour); !since.Equal(want) {
		t.Errorf("the episode is since %s, want %s", since, want)
	}
	if fields, since := episodes.Standing(key("m1", "x")); len(fields) != 1 || !since.Equal(epoch.Add(2*time.Hour)) {
		t.Errorf("since %s these stand: %+v", since, fields)
	}
	episodes.Stands(key("m1", "x"), nil)
	if list := episodes.List("m1"); len(list) != 0 {
		t.Errorf("what ended more than an hour after the last change is still there: %+v", list)
	}
}

// TestAFieldIsShownOnce: a field that stands is not shown as put back as well.
func TestAFieldIsShownOnce(t *testing.T) {
	episodes := drift.New(clocktesting.NewFakePassiveClock(epoch))
	episodes.PutBack(key("m1", "x"), []fleetv1alpha1.DriftedField{field("/a", "1", ""), field("/b", "1", "")})
	episodes.Stands(key("m1", "x"), []fleetv1alpha1.DriftedField{field("/b", "2", fleetv1alpha1.DriftPaused)})
	want := []fleetv1alpha1.DriftedField{field("/a", "1", fleetv1alpha1.DriftPutBack), field("/b", "2", fleetv1alpha1.DriftPaused)}
	if diff := cmp.Diff(want, episodes.List("m1")[0].Fields); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	episodes.Forget(key("m1", "x").Work)
	if list := episodes.List(""); len(list) != 0 {
		t.Errorf("after the end of the Work: %+v", list)
	}
}

// TestCreatedAgain: an object that was created again counts as put back, is news once in an episode, and is no difference that stands.
func TestCreatedAgain(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	episodes, k := drift.New(clock), key("m1", "x")
	episodes.Stands(k, []fleetv1alpha1.DriftedField{field("/b", "2", fleetv1alpha1.DriftReported)})
	for i := range 5 {
		if _, isNew := episodes.CreatedAgain(k); isNew != (i == 0) {
			t.Errorf("time %d is new: %v", i, isNew)
		}
	}
	at := metav1.NewTime(epoch)
	want := []fleetv1alpha1.DriftedField{{Path: "/", Outcome: fleetv1alpha1.DriftCreatedAgain, Time: &at}}
	list := episodes.List("")
	if diff := cmp.Diff(want, list[0].Fields); diff != "" || drift.Stands(&list[0]) || list[0].PutBack != 5 {
		t.Errorf("-want +got\n%s\n%+v", diff, list)
	}
	if disputed, _ := episodes.Dispute(k.Work); !disputed {
		t.Error("who deletes an object again and again disputes nothing")
	}
}

// TestDispute: five repairs within two minutes are one, for as long as the fifth last is not older.
func TestDispute(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(epoch)
	episodes, k := drift.New(clock), key("m1", "x")
	for i := range 5 {
		if disputed, _ := episodes.Dispute(k.Work); disputed {
			t.Errorf("a dispute after %d repairs", i)
		}
		episodes.PutBack(k, []fleetv1alpha1.DriftedField{field("/a", fmt.Sprint(i), "")})
		clock.SetTime(clock.Now().Add(10 * time.Second))
	}
	if disputed, remaining := episodes.Dispute(k.Work); !disputed || remaining != 70*time.Second {
		t.Errorf("disputed %v for %v", disputed, remaining)
	}
	clock.SetTime(epoch.Add(2 * time.Minute))
	if disputed, _ := episodes.Dispute(k.Work); disputed {
		t.Error("a dispute does not end")
	}
	for range 5 {
		episodes.PutBack(k, []fleetv1alpha1.DriftedField{field("/a", "x", "")})
	}
	if list := episodes.List(""); list[0].PutBack != 10 || len(list[0].Recent) != drift.MaxRecent || list[0].Fields[0].Found != "x" {
		t.Errorf("the episodes are %+v", list)
	}
}

// TestTheRecordIsBounded: whatever happens, no bound is exceeded, the latest of a cluster is there, and a cluster pushes no other out.
func TestTheRecordIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clock := clocktesting.NewFakePassiveClock(epoch)
	episodes := drift.New(clock)
	episodes.PutBack(key("calm", "one"), []fleetv1alpha1.DriftedField{field("/a", "1", "")})
	for step := range 5000 {
		clock.SetTime(clock.Now().Add(time.Duration(random.IntN(20)) * time.Millisecond))
		k := key("m1", fmt.Sprint(random.IntN(1000)))
		var fields []fleetv1alpha1.DriftedField
		for i := range 1 + random.IntN(30) {
			fields = append(fields, field(fmt.Sprintf("/f%02d", i), "1", fleetv1alpha1.DriftReported))
		}
		var fresh []string
		switch random.IntN(4) {
		case 0:
			fresh = episodes.Stands(k, fields)
		case 1:
			episodes.Forget(k.Work)
			continue
		case 2:
			episodes.Stands(k, nil)
			continue
		default:
			fresh = episodes.PutBack(k, fields)
		}
		if step%25 != 0 {
			continue
		}
		list := episodes.List("m1")
		at := slices.IndexFunc(list, func(o fleetv1alpha1.DriftedObject) bool { return o.Work == k.Work.Name })
		if len(list) > drift.MaxObjects || at < 0 || len(list[at].Fields) > 2*drift.MaxFields || len(list[at].Recent) > drift.MaxRecent {
			t.Fatalf("%d objects; %v after the news %q", len(list), at, fresh)
		}
	}
	if len(episodes.List("calm")) != 1 {
		t.Error("another cluster removed the object of this one")
	}
	for i := range drift.MaxAll + 200 {
		episodes.PutBack(key(fmt.Sprint("c", i%100), fmt.Sprint(i)), []fleetv1alpha1.DriftedField{field("/a", "1", "")})
	}
	if n := len(episodes.List("")); n > drift.MaxAll {
		t.Errorf("there are %d objects", n)
	}
}

func TestTexts(t *testing.T) {
	for name, tc := range map[string]struct {
		got, want string
	}{
		"String":  {drift.Text("a\nb", true, false), `"a\nb"`},
		"Null":    {drift.Text(nil, true, false), "null"},
		"Absent":  {drift.Text(nil, false, false), ""},
		"Secret":  {drift.Text("c2VjcmV0", true, true), "(hidden)"},
		"NoField": {drift.Text("x", false, true), ""},
		"Long":    {drift.Text(strings.Repeat("é", 100), true, false), `"` + strings.Repeat("é", 47) + "…"},
		"Path":    {drift.Bounded(fleetv1alpha1.DriftedField{Path: strings.Repeat("x", 1000)}).Path, strings.Repeat("x", 512) + "…"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}
