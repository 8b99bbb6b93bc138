package resourceclaims

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const translatedAnnotations = "annotations: {flagship.io/translated-from: resource.k8s.io/v1alpha2}"

func TestTheStatusOfATranslatedClaimIsTranslatedBack(t *testing.T) {
	cases := map[string]struct{ object, want string }{
		"nothing yet": {"{metadata: {name: a, " + translatedAnnotations + "}}", `null`},
		"pending":     {"{metadata: {name: a, " + translatedAnnotations + "}, status: {}}", `{}`},
		"allocated and reserved": {`
metadata: {name: a, ` + translatedAnnotations + `}
status:
  allocation:
    devices: {results: [{request: claim, driver: gpu.example.com, pool: node-1, device: gpu-0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}
  reservedFor: [{resource: pods, name: p, uid: u}]
`, `{"driverName":"gpu.example.com","allocation":{"resourceHandles":[{"driverName":"gpu.example.com","data":"{\"device\":\"gpu-0\",\"pool\":\"node-1\",\"request\":\"claim\"}"}],` +
			`"availableOnNodes":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["node-1"]}]}]},"shareable":true},` +
			`"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}`},
		"an allocation without devices has a driver in name only": {
			"{metadata: {name: a, " + translatedAnnotations + "}, status: {allocation: {devices: {}}}}",
			`{"driverName":"none.flagship.io","allocation":{"shareable":true}}`,
		},
		"a claim of its own version stays as it is": {
			"{metadata: {name: a}, status: {allocation: {devices: {}}}}", `{"allocation":{"devices":{}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			got, err := reflectClaim(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			text := "null"
			if got != nil {
				text = string(got.Raw)
			}
			if diff := cmp.Diff(anyOf(t, c.want), anyOf(t, text)); diff != "" {
				t.Errorf("not as wanted (-want +got):\n%s", diff)
			}
		})
	}
}

func anyOf(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAStatusThatCannotBeReadIsRefused(t *testing.T) {
	for name, status := range map[string]string{
		"allocation is no object": `{"allocation": "yes"}`,
		"results are no list":     `{"allocation": {"devices": {"results": 7}}}`,
		"consumers are text":      `{"reservedFor": "everybody"}`,
	} {
		if got, err := translateBack([]byte(status)); err == nil {
			t.Errorf("%s: translateBack() = %v, want an error", name, got)
		}
	}
}

// reported is what a cluster says of its copy; an empty status is silence.
func reported(cluster, status string) workv1alpha2.AggregatedStatusItem {
	item := workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Applied: true}
	if status != "" {
		item.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return item
}

func allocatedBy(driver, data string, consumers ...string) string {
	status := resourcev1alpha2.ResourceClaimStatus{DriverName: driver, Allocation: &resourcev1alpha2.AllocationResult{
		ResourceHandles: []resourcev1alpha2.ResourceHandle{{DriverName: driver, Data: data}},
	}}
	for _, name := range consumers {
		status.ReservedFor = append(status.ReservedFor, resourcev1alpha2.ResourceClaimConsumerReference{
			Resource: "pods", Name: name, UID: types.UID("uid-of-" + name),
		})
	}
	raw, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestTheStatusOfAClaimIsTheSumOfItsCopies(t *testing.T) {
	one := allocatedBy("gpu.example.com", "slot 1", "a")
	other := allocatedBy("fpga.example.com", "slot 2", "b")
	full := allocatedBy("gpu.example.com", strings.Repeat("x", 16*1024))
	cases := map[string]struct {
		items []workv1alpha2.AggregatedStatusItem
		want  string
	}{
		"no copy":                    {nil, `{}`},
		"one that is silent":         {[]workv1alpha2.AggregatedStatusItem{reported("m1", "")}, `{}`},
		"a single copy is the claim": {[]workv1alpha2.AggregatedStatusItem{reported("m1", one)}, one},
		"one that its agent did not translate": {
			[]workv1alpha2.AggregatedStatusItem{reported("m1", `{"allocation":{"devices":{"results":[{"request":"claim","driver":"d","pool":"p","device":"x"}]}},"reservedFor":[{"resource":"pods","name":"a","uid":"u"}]}`)},
			`{"driverName":"d","allocation":{"shareable":true,"resourceHandles":[{"driverName":"d","data":"{\"device\":\"x\",\"pool\":\"p\",\"request\":\"claim\"}"}]},"reservedFor":[{"resource":"pods","name":"a","uid":"u"}]}`,
		},
		"one of two is pending":          {[]workv1alpha2.AggregatedStatusItem{reported("m1", one), reported("m2", `{"driverName":"x"}`)}, `{}`},
		"one of two has not said a word": {[]workv1alpha2.AggregatedStatusItem{reported("m1", one), reported("m2", "")}, `{}`},
		"each of two is a handle": {
			[]workv1alpha2.AggregatedStatusItem{reported("m2", other), reported("m1", one)},
			`{"driverName":"gpu.example.com","allocation":{"shareable":true,"resourceHandles":[` +
				`{"driverName":"gpu.example.com","data":"{\"cluster\":\"m1\",\"resourceHandles\":[{\"driverName\":\"gpu.example.com\",\"data\":\"slot 1\"}]}"},` +
				`{"driverName":"fpga.example.com","data":"{\"cluster\":\"m2\",\"resourceHandles\":[{\"driverName\":\"fpga.example.com\",\"data\":\"slot 2\"}]}"}]},` +
				`"reservedFor":[{"resource":"pods","name":"a","uid":"uid-of-a"},{"resource":"pods","name":"b","uid":"uid-of-b"}]}`,
		},
		"what does not fit into a handle is left out": {
			[]workv1alpha2.AggregatedStatusItem{reported("m1", full), reported("m2", full)},
			`{"driverName":"gpu.example.com","allocation":{"shareable":true,"resourceHandles":[` +
				`{"driverName":"gpu.example.com","data":"{\"cluster\":\"m1\",\"truncated\":true}"},` +
				`{"driverName":"gpu.example.com","data":"{\"cluster\":\"m2\",\"truncated\":true}"}]}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			template := fromYAML(t, plainClaim)
			got, err := Sum(t.Context(), template, c.items)
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
			if again, err := Sum(t.Context(), got, c.items); err != nil || again != got {
				t.Errorf("adding up again is not the same object: %v", err)
			}
		})
	}
}

// TestAnySumIsOneTheAPITakes: forty clusters with a consumer each are more than a claim can hold of either.
func TestAnySumIsOneTheAPITakes(t *testing.T) {
	var items []workv1alpha2.AggregatedStatusItem
	for i := range 40 {
		items = append(items, reported(fmt.Sprintf("m%02d", i), allocatedBy("gpu.example.com", "x", fmt.Sprintf("pod-%d", i))))
	}
	got, err := Sum(t.Context(), fromYAML(t, plainClaim), items)
	if err != nil {
		t.Fatal(err)
	}
	var claim resourcev1alpha2.ResourceClaim
	if err := decode(got, &claim); err != nil {
		t.Fatal(err)
	}
	if faults := statusFaults(claim.Status, resourcev1alpha2.ResourceClaimStatus{}); len(faults) > 0 {
		t.Error(faults.ToAggregate())
	}
	if n := len(claim.Status.Allocation.ResourceHandles); n != 32 {
		t.Errorf("%d handles, want 32", n)
	}
}

func TestAnInvalidStatusFromAMemberIsRefused(t *testing.T) {
	good := allocatedBy("gpu.example.com", "slot 1")
	for name, c := range map[string]struct{ status, want string }{
		"no status of a claim": {`{"allocation": "yes"}`, "cluster m2 reports a status that is none of a claim"},
		"consumers of nothing": {`{"reservedFor": [{"resource": "pods", "name": "a", "uid": "b"}]}`, "status.reservedFor"},
		"no driver":            {`{"allocation": {}}`, "status.driverName"},
		"more data than a handle holds": {
			allocatedBy("gpu.example.com", strings.Repeat("x", 16*1024+1)), "status.allocation.resourceHandles[0].data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Sum(t.Context(), fromYAML(t, plainClaim), []workv1alpha2.AggregatedStatusItem{reported("m1", good), reported("m2", c.status)})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "cluster m2") {
				t.Errorf("Sum() = %v, want an error about cluster m2 with %q", err, c.want)
			}
		})
	}
}

func TestAClaimThatADriverTookOnTheHubIsLeftAlone(t *testing.T) {
	template := fromYAML(t, plainClaim)
	template.SetFinalizers([]string{"gpu.example.com/deletion-protection"})
	got, err := Sum(t.Context(), template, []workv1alpha2.AggregatedStatusItem{reported("m1", allocatedBy("gpu.example.com", "x"))})
	if err != nil || got != template {
		t.Errorf("Sum() = %v, %v, want the template itself", got, err)
	}
}

func TestWhichStatusesCannotFollowEachOther(t *testing.T) {
	with := func(status string) *unstructured.Unstructured {
		obj := fromYAML(t, plainClaim)
		if status != "" {
			obj.Object["status"] = anyOf(t, status)
		}
		return obj
	}
	first, second := allocatedBy("gpu.example.com", "1"), allocatedBy("gpu.example.com", "2")
	requested := strings.TrimSuffix(first, "}") + `,"deallocationRequested":true}`
	for name, c := range map[string]struct {
		before, after string
		want          bool
	}{
		"allocated for the first time": {"", first, false},
		"freed":                        {first, "", false},
		"reserved":                     {first, allocatedBy("gpu.example.com", "1", "a"), false},
		"another allocation":           {first, second, true},
		"a request taken back":         {requested, first, true},
		"something impossible":         {first, `{"allocation":{}}`, false},
	} {
		if got := needsPause(with(c.before), with(c.after)); got != c.want {
			t.Errorf("%s: needsPause() = %v, want %v", name, got, c.want)
		}
	}
}

func TestOnlyAnImmediateClaimIsUnwellWithoutAllocation(t *testing.T) {
	for want, text := range map[workv1alpha2.ResourceHealth]string{
		workv1alpha2.ResourceHealthy: plainClaim, workv1alpha2.ResourceUnhealthy: immediateClaim,
	} {
		if got, err := healthOfClaim(t.Context(), fromYAML(t, text)); err != nil || got != want {
			t.Errorf("healthOfClaim() = %v, %v, want %v", got, err, want)
		}
	}
}
