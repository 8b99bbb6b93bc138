package v1alpha2_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// wired is what the protobuf serializer of API machinery requires of a kind.
type wired interface {
	runtime.ProtobufMarshaller
	runtime.ProtobufReverseMarshaller
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
	Reset()
}

func selector() *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}},
	}}}
}

func fullMeta() metav1.ObjectMeta {
	controller := true
	return metav1.ObjectMeta{
		Name: "c", Namespace: "ns", UID: "u", ResourceVersion: "7", Generation: 3,
		CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0)),
		Labels:            map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"example.com/x", "example.com/y"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "pu", Controller: &controller}},
	}
}

func fullClaim() *v1alpha2.ResourceClaim {
	return &v1alpha2.ResourceClaim{
		ObjectMeta: fullMeta(),
		Spec: v1alpha2.ResourceClaimSpec{
			ResourceClassName: "class", AllocationMode: v1alpha2.AllocationModeImmediate,
			ParametersRef: &v1alpha2.ResourceClaimParametersReference{APIGroup: "g", Kind: "K", Name: "n"},
		},
		Status: v1alpha2.ResourceClaimStatus{
			DriverName: "driver", DeallocationRequested: true,
			Allocation: &v1alpha2.AllocationResult{
				Shareable: true, AvailableOnNodes: selector(),
				ResourceHandles: []v1alpha2.ResourceHandle{{DriverName: "d1", Data: "ünï\x00"}, {
					DriverName: "d2",
					StructuredData: &v1alpha2.StructuredResourceHandle{
						VendorClassParameters: runtime.RawExtension{Raw: []byte(`{"a":1}`)},
						VendorClaimParameters: runtime.RawExtension{Raw: []byte(`{"b":1}`)},
						NodeName:              "node",
						Results: []v1alpha2.DriverAllocationResult{{
							VendorRequestParameters: runtime.RawExtension{Raw: []byte(`{"c":1}`)},
							AllocationResultModel: v1alpha2.AllocationResultModel{
								NamedResources: &v1alpha2.NamedResourcesAllocationResult{Name: "gpu-0"},
							},
						}},
					},
				}},
			},
			ReservedFor: []v1alpha2.ResourceClaimConsumerReference{
				{APIGroup: "cg", Resource: "pods", Name: "p1", UID: "u1"}, {Resource: "pods", Name: "p2", UID: "u2"},
			},
		},
	}
}

func fullClass() *v1alpha2.ResourceClass {
	structured := true
	return &v1alpha2.ResourceClass{
		ObjectMeta: fullMeta(), DriverName: "driver", SuitableNodes: selector(), StructuredParameters: &structured,
		ParametersRef: &v1alpha2.ResourceClassParametersReference{APIGroup: "g", Kind: "K", Name: "n", Namespace: "pns"},
	}
}

func fullTemplate() *v1alpha2.ResourceClaimTemplate {
	return &v1alpha2.ResourceClaimTemplate{
		ObjectMeta: fullMeta(),
		Spec: v1alpha2.ResourceClaimTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}}, Spec: fullClaim().Spec,
		},
	}
}

func fullScheduling() *v1alpha2.PodSchedulingContext {
	return &v1alpha2.PodSchedulingContext{
		ObjectMeta: fullMeta(),
		Spec:       v1alpha2.PodSchedulingContextSpec{SelectedNode: "n1", PotentialNodes: []string{"n1", "n2"}},
		Status: v1alpha2.PodSchedulingContextStatus{ResourceClaims: []v1alpha2.ResourceClaimSchedulingStatus{
			{Name: "c1", UnsuitableNodes: []string{"n3", "n4"}}, {Name: "c2"},
		}},
	}
}

// full are objects with something in every field.
func full() map[string]struct{ filled, empty wired } {
	list := metav1.ListMeta{ResourceVersion: "9", Continue: "token"}
	return map[string]struct{ filled, empty wired }{
		"claim":           {fullClaim(), &v1alpha2.ResourceClaim{}},
		"claim list":      {&v1alpha2.ResourceClaimList{ListMeta: list, Items: []v1alpha2.ResourceClaim{*fullClaim(), {}}}, &v1alpha2.ResourceClaimList{}},
		"class":           {fullClass(), &v1alpha2.ResourceClass{}},
		"class list":      {&v1alpha2.ResourceClassList{ListMeta: list, Items: []v1alpha2.ResourceClass{*fullClass()}}, &v1alpha2.ResourceClassList{}},
		"template":        {fullTemplate(), &v1alpha2.ResourceClaimTemplate{}},
		"template list":   {&v1alpha2.ResourceClaimTemplateList{ListMeta: list, Items: []v1alpha2.ResourceClaimTemplate{*fullTemplate()}}, &v1alpha2.ResourceClaimTemplateList{}},
		"scheduling":      {fullScheduling(), &v1alpha2.PodSchedulingContext{}},
		"scheduling list": {&v1alpha2.PodSchedulingContextList{ListMeta: list, Items: []v1alpha2.PodSchedulingContext{*fullScheduling()}}, &v1alpha2.PodSchedulingContextList{}},
	}
}

func TestProtobufBringsEverythingBack(t *testing.T) {
	for name, test := range full() {
		t.Run(name, func(t *testing.T) {
			data, err := test.filled.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if len(data) != test.filled.Size() {
				t.Errorf("%d bytes, but Size says %d", len(data), test.filled.Size())
			}
			if err := test.empty.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.filled, test.empty); diff != "" {
				t.Errorf("went in (-), came out (+):\n%s", diff)
			}
			test.empty.Reset()
			if again, err := test.empty.Marshal(); err != nil || len(again) >= len(data) {
				t.Errorf("after Reset the object still takes %d bytes (%v)", len(again), err)
			}
		})
	}
}

func TestProtobufOfEveryBufferIsTheSame(t *testing.T) {
	for name, test := range full() {
		want, err := test.filled.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		const spare = 5
		buffer := make([]byte, len(want)+spare)
		if n, err := test.filled.MarshalTo(buffer); err != nil || string(buffer[:n]) != string(want) {
			t.Errorf("%s: MarshalTo writes something else (%v)", name, err)
		}
		clear(buffer)
		if n, err := test.filled.MarshalToSizedBuffer(buffer); err != nil || string(buffer[len(buffer)-n:]) != string(want) {
			t.Errorf("%s: MarshalToSizedBuffer writes something else (%v)", name, err)
		}
		if _, err := test.filled.MarshalToSizedBuffer(buffer[:len(want)-1]); err == nil {
			t.Errorf("%s: a buffer that is too small is no error", name)
		}
	}
}

// at finds what a message holds under a path of field numbers: of repeated fields the last.
func at(data []byte, path ...uint64) (any, bool) {
	var found any
	ok := false
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		data = data[n:]
		value, n := binary.Uvarint(data)
		data = data[n:]
		if key&7 == 0 {
			if len(path) == 1 && key>>3 == path[0] {
				found, ok = value, true
			}
			continue
		}
		content := data[:value]
		data = data[value:]
		if key>>3 != path[0] {
			continue
		}
		if len(path) == 1 {
			found, ok = string(content), true
		} else {
			found, ok = at(content, path[1:]...)
		}
	}
	return found, ok
}

func TestProtobufFieldNumbers(t *testing.T) {
	claim, class, template, scheduling := fullClaim(), fullClass(), fullTemplate(), fullScheduling()
	plain := fullClaim()
	plain.Status.Allocation.ResourceHandles = plain.Status.Allocation.ResourceHandles[:1]
	plain.Status.ReservedFor = plain.Status.ReservedFor[:1]
	list := &v1alpha2.ResourceClaimList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []v1alpha2.ResourceClaim{*claim}}
	for name, test := range map[string]struct {
		object wired
		path   []uint64
		want   any
	}{
		"claim metadata.name":                      {claim, []uint64{1, 1}, "c"},
		"claim spec.resourceClassName":             {claim, []uint64{2, 1}, "class"},
		"claim spec.parametersRef.apiGroup":        {claim, []uint64{2, 2, 1}, "g"},
		"claim spec.parametersRef.kind":            {claim, []uint64{2, 2, 2}, "K"},
		"claim spec.parametersRef.name":            {claim, []uint64{2, 2, 3}, "n"},
		"claim spec.allocationMode":                {claim, []uint64{2, 3}, "Immediate"},
		"claim status.driverName":                  {claim, []uint64{3, 1}, "driver"},
		"claim handle.driverName":                  {plain, []uint64{3, 2, 1, 1}, "d1"},
		"claim handle.data":                        {plain, []uint64{3, 2, 1, 2}, "ünï\x00"},
		"claim handle.structuredData class params": {claim, []uint64{3, 2, 1, 5, 1, 1}, `{"a":1}`},
		"claim handle.structuredData claim params": {claim, []uint64{3, 2, 1, 5, 2, 1}, `{"b":1}`},
		"claim handle.structuredData.nodeName":     {claim, []uint64{3, 2, 1, 5, 4}, "node"},
		"claim result params":                      {claim, []uint64{3, 2, 1, 5, 5, 1, 1}, `{"c":1}`},
		"claim result.namedResources.name":         {claim, []uint64{3, 2, 1, 5, 5, 2, 1, 1}, "gpu-0"},
		"claim availableOnNodes term key":          {claim, []uint64{3, 2, 2, 1, 1, 1}, "zone"},
		"claim shareable":                          {claim, []uint64{3, 2, 3}, uint64(1)},
		"claim reservedFor.apiGroup":               {plain, []uint64{3, 3, 1}, "cg"},
		"claim reservedFor.resource":               {plain, []uint64{3, 3, 3}, "pods"},
		"claim reservedFor.name":                   {plain, []uint64{3, 3, 4}, "p1"},
		"claim reservedFor.uid":                    {plain, []uint64{3, 3, 5}, "u1"},
		"claim deallocationRequested":              {claim, []uint64{3, 4}, uint64(1)},
		"list resourceVersion":                     {list, []uint64{1, 2}, "9"},
		"list item spec.resourceClassName":         {list, []uint64{2, 2, 1}, "class"},
		"class driverName":                         {class, []uint64{2}, "driver"},
		"class parametersRef.apiGroup":             {class, []uint64{3, 1}, "g"},
		"class parametersRef.kind":                 {class, []uint64{3, 2}, "K"},
		"class parametersRef.name":                 {class, []uint64{3, 3}, "n"},
		"class parametersRef.namespace":            {class, []uint64{3, 4}, "pns"},
		"class suitableNodes term key":             {class, []uint64{4, 1, 1, 1}, "zone"},
		"class structuredParameters":               {class, []uint64{5}, uint64(1)},
		"template spec.metadata label":             {template, []uint64{2, 1, 11, 1}, "l"},
		"template spec.spec.resourceClassName":     {template, []uint64{2, 2, 1}, "class"},
		"scheduling spec.selectedNode":             {scheduling, []uint64{2, 1}, "n1"},
		"scheduling spec.potentialNodes":           {scheduling, []uint64{2, 2}, "n2"},
		"scheduling status claim name":             {scheduling, []uint64{3, 1, 1}, "c2"},
	} {
		data, err := test.object.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := at(data, test.path...); !ok || got != test.want {
			t.Errorf("%s: field %v is %q (there: %v), want %q", name, test.path, got, ok, test.want)
		}
	}
}

func TestProtobufThatIsCutOffIsRefused(t *testing.T) {
	data, err := fullClaim().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	// After metadata, spec and status the message is whole.
	whole := map[int]bool{}
	for rest := data; len(rest) > 0; {
		whole[len(data)-len(rest)] = true
		_, n := binary.Uvarint(rest)
		length, m := binary.Uvarint(rest[n:])
		rest = rest[n+m+int(length):]
	}
	for cut := range data {
		if err := new(v1alpha2.ResourceClaim).Unmarshal(data[:cut]); (err == nil) != whole[cut] {
			t.Errorf("cut after %d of %d bytes: %v", cut, len(data), err)
		}
	}
}

func TestInvalidProtobufIsRefused(t *testing.T) {
	for reason, data := range map[string][]byte{
		"a length beyond the end":       {0x0a, 0x7f},
		"a length near the largest":     append([]byte{0x12}, binary.AppendUvarint(nil, 1<<63)...),
		"a number that does not end":    {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"field number zero":             {0x02, 0x00},
		"a group":                       {0x13},
		"a number where a message goes": {0x10, 0x01},
		"half a fixed number":           {0x29, 0x01},
	} {
		if err := new(v1alpha2.ResourceClaim).Unmarshal(data); err == nil {
			t.Errorf("%s is read", reason)
		}
	}
}

func TestProtobufSkipsFieldsOfOtherReleases(t *testing.T) {
	consumer := []byte{0x12, 0x01, 'v', 0x1a, 0x04, 'p', 'o', 'd', 's', 0x30, 0x07, 0x39, 1, 2, 3, 4, 5, 6, 7, 8, 0x3d, 1, 2, 3, 4}
	status := append([]byte{0x1a, byte(len(consumer))}, consumer...)
	var got v1alpha2.ResourceClaim
	if err := got.Unmarshal(append([]byte{0x1a, byte(len(status))}, status...)); err != nil {
		t.Fatal(err)
	}
	want := []v1alpha2.ResourceClaimConsumerReference{{Resource: "pods"}}
	if diff := cmp.Diff(want, got.Status.ReservedFor); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzProtobuf: whatever a client sends, reading ends, and what was read can be written and read again.
func FuzzProtobuf(f *testing.F) {
	for _, test := range full() {
		data, err := test.filled.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first, second v1alpha2.ResourceClaimList
		if first.Unmarshal(data) != nil {
			return
		}
		written, err := first.Marshal()
		if err != nil {
			t.Fatal(fmt.Errorf("writing what was read: %w", err))
		}
		if err := second.Unmarshal(written); err != nil {
			t.Fatal(fmt.Errorf("reading what was written: %w", err))
		}
	})
}
