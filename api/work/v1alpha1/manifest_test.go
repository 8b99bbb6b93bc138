package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestSameRawComparesByMeaning(t *testing.T) {
	raw := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	tests := map[string]struct {
		a, b *runtime.RawExtension
		same bool
	}{
		"Nothing":       {nil, nil, true},
		"NothingAndOne": {nil, raw(`{}`), false},
		"OtherOrder":    {raw(`{"a":1,"b":[2,3]}`), raw(`{"b": [2,3], "a": 1}`), true},
		"OtherList":     {raw(`{"b":[2,3]}`), raw(`{"b":[3,2]}`), false},
		"OtherType":     {raw(`{"a":1}`), raw(`{"a":"1"}`), false},
		"LargeNumbers":  {raw(`{"a":9007199254740993}`), raw(`{"a":9007199254740992}`), false},
		"Equal":         {raw(`not JSON`), raw(`not JSON`), true},
		"Unreadable":    {raw(`not JSON`), raw(`no JSON`), false},
		"HalfReadable":  {raw(`null`), raw(`no JSON`), false},
	}
	for name, tc := range tests {
		if got := SameRaw(tc.a, tc.b); got != tc.same {
			t.Errorf("%s: the same is %t", name, got)
		}
		if got := SameRaw(tc.b, tc.a); got != tc.same {
			t.Errorf("%s, the other way round: the same is %t", name, got)
		}
	}
}
