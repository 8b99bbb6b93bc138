package resourceclaims

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// todayAllocated is the status of a claim with a device of a pool, and consumers.
func todayAllocated(pool string, consumers ...string) string {
	var all []string
	for _, name := range consumers {
		all = append(all, fmt.Sprintf(`{"resource":"pods","name":%q,"uid":"uid-of-%s"}`, name, name))
	}
	return fmt.Sprintf(`{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":%q,"device":"x"}]},`+
		`"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":[%q]}]}]}},`+
		`"reservedFor":[%s],"devices":[{"driver":"d","pool":%q,"device":"x","conditions":[],"data":{"a":"b"}}]}`,
		pool, pool, strings.Join(all, ","), pool)
}

func TestTheStatusOfAV1ClaimIsTheSumOfItsCopies(t *testing.T) {
	long := strings.Repeat("p", 251)
	cases := map[string]struct {
		items []workv1alpha2.AggregatedStatusItem
		want  string
	}{
		"no copy":                        {nil, `{}`},
		"one that is silent":             {[]workv1alpha2.AggregatedStatusItem{reported("m1", "")}, `{}`},
		"a single copy is the claim":     {[]workv1alpha2.AggregatedStatusItem{reported("m1", todayAllocated("n", "a"))}, todayAllocated("n", "a")},
		"one of two is pending":          {[]workv1alpha2.AggregatedStatusItem{reported("m1", todayAllocated("n", "a")), reported("m2", `{}`)}, `{}`},
		"one of two has not said a word": {[]workv1alpha2.AggregatedStatusItem{reported("m1", todayAllocated("n", "a")), reported("m2", "")}, `{}`},
		"pools of two are kept apart, and consumers are added": {
			[]workv1alpha2.AggregatedStatusItem{reported("m2", todayAllocated("n", "b", "a")), reported("m1", todayAllocated("n", "a"))},
			`{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"m1/n","device":"x"},{"request":"r","driver":"d","pool":"m2/n","device":"x"}]}},` +
				`"reservedFor":[{"resource":"pods","name":"a","uid":"uid-of-a"},{"resource":"pods","name":"b","uid":"uid-of-b"}],` +
				`"devices":[{"driver":"d","pool":"m1/n","device":"x","conditions":[],"data":{"a":"b"}},{"driver":"d","pool":"m2/n","device":"x","conditions":[],"data":{"a":"b"}}]}`,
		},
		"a name that gets too long is that of the cluster": {
			[]workv1alpha2.AggregatedStatusItem{
				reported("m1", `{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"`+long+`","device":"x"}]}}}`),
				reported("m2", `{"allocation":{"devices":{}}}`),
			},
			`{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"m1","device":"x"}]}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			template := fromYAML(t, todaysClaim)
			got, err := SumToday(t.Context(), template, c.items)
			if err != nil {
				t.Fatal(err)
			}
			status := got.Object["status"]
			if status == nil {
				status = map[string]any{}
			}
			if diff := cmp.Diff(anyOf(t, c.want), status); diff != "" {
				t.Errorf("not as wanted (-want +got):\n%s", diff)
			}
			if again, err := SumToday(t.Context(), got, c.items); err != nil || again != got {
				t.Errorf("adding up again is not the same object: %v", err)
			}
		})
	}
}

// TestTheStatusOfAV1ClaimStaysWithinItsLimits: forty clusters, with nine consumers each, are more than a claim can hold.
func TestTheStatusOfAV1ClaimStaysWithinItsLimits(t *testing.T) {
	var copies []todaysCopy
	for i := range 40 {
		c := todaysCopy{cluster: fmt.Sprintf("m%02d", i)}
		c.status.Allocation = &resourcev1.AllocationResult{}
		c.status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "n", Device: "x"}}
		c.status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d", Pool: "n", Device: "x"}}
		for n := range 9 {
			c.status.ReservedFor = append(c.status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: uid(i, n)})
		}
		copies = append(copies, c)
	}
	sum := addToday(copies)
	if results, devices, consumers := len(sum.Allocation.Devices.Results), len(sum.Devices), len(sum.ReservedFor); results != 32 || devices != 32 || consumers != 256 {
		t.Errorf("%d results, %d devices and %d consumers, want 32, 32 and 256", results, devices, consumers)
	}
	if copies[0].status.Allocation.Devices.Results[0].Pool != "n" {
		t.Error("adding up changed what was added")
	}
}

func TestAnInvalidStatusOfAV1ClaimIsRefused(t *testing.T) {
	for status, want := range map[string]string{
		`{"allocation": "yes"}`: "cluster m2 reports a status that is none of a claim",
		`{"reservedFor": [{"resource": "pods", "name": "a", "uid": "b"}]}`: "cluster m2 reports a status that no claim can have: status.reservedFor",
	} {
		_, err := SumToday(t.Context(), fromYAML(t, todaysClaim), []workv1alpha2.AggregatedStatusItem{reported("m1", todayAllocated("n")), reported("m2", status)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SumToday() = %v, want an error with %q", err, want)
		}
	}
}

func TestAV1AllocationIsFreedBeforeItChanges(t *testing.T) {
	with := func(status string) *unstructured.Unstructured {
		obj := fromYAML(t, todaysClaim)
		if status != "" {
			obj.Object["status"] = anyOf(t, status)
		}
		return obj
	}
	for name, c := range map[string]struct {
		before, after string
		want          bool
	}{
		"allocated for the first time": {"", todayAllocated("n"), false},
		"freed":                        {todayAllocated("n"), "", false},
		"reserved":                     {todayAllocated("n"), todayAllocated("n", "a"), false},
		"another allocation":           {todayAllocated("n"), todayAllocated("o"), true},
	} {
		if got := needsPause(with(c.before), with(c.after)); got != c.want {
			t.Errorf("%s: needsPause() = %v, want %v", name, got, c.want)
		}
	}
}

func uid(cluster, consumer int) types.UID { return types.UID(fmt.Sprintf("%d-%d", cluster, consumer)) }
