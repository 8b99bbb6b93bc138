package reports_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestCutKeepsWhatIsSmall(t *testing.T) {
	junk := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		status, want string
		most         int
	}{
		"small":              {`{"replicas":3}`, `{"replicas":3}`, 100},
		"counters stay":      {`{"junk":"` + junk + `","replicas":3,"ready":true}`, `{"flagship.io/TooLarge":"of 2037 bytes","ready":true,"replicas":3}`, 100},
		"a list ends sooner": {`{"junk":"` + junk + `","list":["aaaaaaaaaa","bbbbbbbbbb","cccccccccc"],"n":1}`, `{"flagship.io/TooLarge":"of 2065 bytes","list":["aaaaaaaaaa","bbbbbbbbbb"],"n":1}`, 90},
		"no more escapes":    {`{"junk":"` + junk + `","a":"<&>"}`, `{"a":"<&>","flagship.io/TooLarge":"of 2021 bytes"}`, 60},
		"no object":          {`["` + junk + `"]`, `{"flagship.io/TooLarge":"of 2004 bytes"}`, 100},
		"no JSON":            {junk, `{"flagship.io/TooLarge":"of 2000 bytes"}`, 100},
		"not even the note":  {`{"junk":"` + junk + `"}`, "", 10},
		"a note of its own":  {`{"flagship.io/TooLarge":"` + junk + `"}`, `{"flagship.io/TooLarge":"of 2027 bytes"}`, 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := reports.Cut(raw(tc.status), tc.most)
			if text := string(ofRaw(got)); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if cut := tc.status != tc.want && tc.want != ""; reports.WasCut(got) != cut {
				t.Errorf("that it was cut shows: %t, want %t", !cut, cut)
			}
		})
	}
	if reports.Cut(nil, 10) != nil {
		t.Error("no status is cut to one")
	}
}

func ofRaw(status *runtime.RawExtension) []byte {
	if status == nil {
		return nil
	}
	return status.Raw
}

func FuzzCut(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":"<&>"}],"c":"`+strings.Repeat("\u2028<", 40)+`"}`, 90)
	f.Add(`{"a":1,"a":2,"`+strings.Repeat("<", 30)+`":1,"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx":1}`, 70)
	f.Fuzz(func(t *testing.T, text string, most int) {
		got := reports.Cut(raw(text), most)
		if got == nil {
			return
		}
		if len(got.Raw) > most {
			t.Fatalf("%d bytes, want at most %d: %s", len(got.Raw), most, got.Raw)
		}
		if again := reports.Cut(got, most); string(ofRaw(again)) != string(got.Raw) {
			t.Fatalf("it is cut again: %s", ofRaw(again))
		}
		if len(text) > most && !json.Valid(got.Raw) {
			t.Fatalf("no JSON: %s", got.Raw)
		}
	})
}

// TestABindingOfAThousandClustersCanBeWritten has members that report as much as they can, and others that report what a Deployment has.
func TestABindingOfAThousandClustersCanBeWritten(t *testing.T) {
	honest := `{"availableReplicas":2,"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"` + strings.Repeat("m", 150) + `","reason":"MinimumReplicasAvailable","status":"True","type":"Available"}],"replicas":2}`
	huge := `{"replicas":2,"junk":"` + strings.Repeat("x", 40_000) + `"}`
	for _, liars := range []int{1, 2, 300, 1000} {
		binding := &workv1alpha2.ResourceBinding{}
		for i := range 1000 {
			item := workv1alpha2.AggregatedStatusItem{ClusterName: fmt.Sprintf("%s-%d", strings.Repeat("c", 43), i), Status: raw(honest), Applied: true, Health: workv1alpha2.ResourceHealthy}
			if i < liars {
				item.Status, item.AppliedMessage, item.Health = raw(huge), strings.Repeat("é", 16_000), "Splendid"
			}
			binding.Status.AggregatedStatus = append(binding.Status.AggregatedStatus, item)
		}
		items := binding.Status.AggregatedStatus
		reports.Items(items)
		data, err := json.Marshal(binding)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1200<<10 {
			t.Errorf("with %d clusters that report too much the binding has %d bytes", liars, len(data))
		}
		for i := range items {
			var status struct{ Replicas int }
			if err := json.Unmarshal(items[i].Status.Raw, &status); err != nil || status.Replicas != 2 || !utf8.ValidString(items[i].AppliedMessage) {
				t.Fatalf("item %d is %s", i, items[i].Status.Raw)
			}
			if i >= liars && liars <= 300 && string(items[i].Status.Raw) != honest {
				t.Fatalf("with %d clusters that report too much, another one is cut: %s", liars, items[i].Status.Raw)
			}
			if i < liars && items[i].Health != workv1alpha2.ResourceUnknown {
				t.Fatalf("a health that there is not: %s", items[i].Health)
			}
		}
	}
}

func TestWork(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, manifests := range []int{1, 1_400_000, 2_000_000} {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		work.SetManifest([]byte(`"` + strings.Repeat("x", manifests) + `"`))
		status := &workv1alpha1.WorkStatus{}
		for i := range 500 {
			status.Conditions = append(status.Conditions, metav1.Condition{
				Type: fmt.Sprint("T", i), Status: metav1.ConditionTrue, ObservedGeneration: 1 << 60, LastTransitionTime: metav1.NewTime(now.AddDate(900, 0, 0)),
				Reason: strings.Repeat("R", 1024), Message: strings.Repeat("m", 32_000),
			})
		}
		for i := range 5_000 {
			status.ManifestStatuses = append(status.ManifestStatuses, workv1alpha1.ManifestStatus{
				Identifier: workv1alpha1.ResourceIdentifier{Kind: strings.Repeat("K", 4000), Name: fmt.Sprint(i)}, Status: raw(`{"n":1,"junk":"` + strings.Repeat("x", 500) + `"}`),
			})
		}
		reports.Work(work, status, now)
		work.Status = *status
		data, err := json.Marshal(work)
		if err != nil {
			t.Fatal(err)
		}
		if size := len(data); manifests <= workv1alpha1.MaxManifestBytes && size > 1536<<10 || size > manifests+600<<10 {
			t.Errorf("a Work with %d bytes of manifests has %d with its status", manifests, size)
		}
		if c := status.Conditions[0]; len(status.Conditions) != bounds.MaxWorkConditions || c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(now) || len(c.Message) > bounds.MessageBytes {
			t.Errorf("%d conditions, the first %+v", len(status.Conditions), c.LastTransitionTime)
		}
		if len(status.ManifestStatuses) == 0 {
			t.Error("no object is reported")
		}
	}
	honest := &workv1alpha1.WorkStatus{
		Conditions:       []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue, Reason: "A", Message: "m", ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now)}},
		ManifestStatuses: []workv1alpha1.ManifestStatus{{Identifier: workv1alpha1.ResourceIdentifier{Kind: "Deployment", Name: "web"}, Status: raw(`{"replicas":1}`), Health: workv1alpha1.ResourceHealthy}},
	}
	same := honest.DeepCopy()
	reports.Work(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Generation: 3}}, same, now)
	if fmt.Sprint(*same) != fmt.Sprint(*honest) {
		t.Errorf("what is within the bounds became %+v", *same)
	}
}

func TestCluster(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	status := &clusterv1alpha1.ClusterStatus{
		KubernetesVersion: strings.Repeat("v", 1<<20),
		NodeSummary:       &clusterv1alpha1.NodeSummary{TotalNum: -4, ReadyNum: 1 << 30},
		ResourceSummary: &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("-1"), "memory": resource.MustParse("1e30"), corev1.ResourceName(strings.Repeat("r", 1000)): resource.MustParse("1"), "pods": resource.MustParse("110"),
		}},
		Conditions: []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.AddDate(100, 0, 0)), Message: strings.Repeat("m", 1<<20)}},
	}
	for i := range 20_000 {
		status.APIEnablements = append(status.APIEnablements, clusterv1alpha1.APIEnablement{
			GroupVersion: fmt.Sprintf("g%d.example.com/v1", i), Resources: []clusterv1alpha1.APIResource{{Name: "things", Kind: "Thing"}},
		})
		status.ResourceSummary.AllocatableModelings = append(status.ResourceSummary.AllocatableModelings, clusterv1alpha1.AllocatableModeling{Grade: uint(i), Count: -1})
	}
	reports.Cluster(status, now)
	data, err := json.Marshal(status)
	if err != nil || len(data) > 600<<10 {
		t.Errorf("the status has %d bytes (%v)", len(data), err)
	}
	if complete := meta.FindStatusCondition(status.Conditions, clusterv1alpha1.ClusterConditionCompleteAPIEnablements); complete == nil || !strings.HasPrefix(complete.Message, "TooLarge") {
		t.Errorf("that kinds are left out does not show: %+v", complete)
	}
	if n := status.NodeSummary; n.TotalNum != 0 || n.ReadyNum != 0 {
		t.Errorf("nodes are %+v", n)
	}
	list := status.ResourceSummary.Allocatable
	if pods := list["pods"]; len(list) != 3 || list.Cpu().Sign() != 0 || list.Memory().Value() != bounds.MaxQuantity || pods.Value() != 110 {
		t.Errorf("resources are %v", list)
	}
	if c := status.Conditions[0]; c.LastTransitionTime.After(now) || len(c.Message) > bounds.MessageBytes {
		t.Errorf("the condition is of %s with %d bytes", c.LastTransitionTime, len(c.Message))
	}
}

func TestNumbersAndTemplates(t *testing.T) {
	if got := reports.Sum(reports.Sum(5, -3), 1<<62); got != bounds.MaxReplicas {
		t.Errorf("the sum is %d", got)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for ahead, past := range map[time.Duration]bool{-time.Hour: true, time.Minute: true, 2 * time.Hour: false} {
		if got := reports.Past(&metav1.Time{Time: now.Add(ahead)}, now); (got != nil) != past {
			t.Errorf("a time %s ahead is %v", ahead, got)
		}
	}
	small := map[string]any{"a": int64(1)}
	if got, err := reports.TemplateStatus(small); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	small["list"] = []any{strings.Repeat("x", 200<<10), strings.Repeat("y", 200<<10)}
	got, err := reports.TemplateStatus(small)
	if err != nil || got["a"] != int64(1) || len(got["list"].([]any)) != 1 || len(got) != 2 {
		t.Errorf("%d fields, %v", len(got), err)
	}
}
