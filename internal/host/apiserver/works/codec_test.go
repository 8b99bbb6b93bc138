package works

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const (
	meta = `"metadata":{"name":"web","namespace":"karmada-es-m1","uid":"1","generation":2,"creationTimestamp":"2026-01-02T03:04:05Z",` +
		`"labels":{"a":"b"},"annotations":{},"finalizers":["karmada.io/execution-controller"]}`
	storedWork = `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1",` + meta + `,"spec":{"workload":{"manifests":[` +
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"html":"<&>","empty":""},"metadata":{"name":"web"}}]},"suspendDispatching":true},` +
		`"status":{"conditions":[{"type":"Applied","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"R","message":"m"}],` +
		`"manifestStatuses":[{"identifier":{"ordinal":0,"version":"v1","kind":"ConfigMap","resource":"configmaps","name":"web"},"status":{"n":9007199254740993}}]}}` + "\n"
	storedBinding = `{"kind":"ResourceBinding","apiVersion":"work.karmada.io/v1alpha2",` + meta + `,"spec":{"resource":{"apiVersion":"apps/v1",` +
		`"kind":"Deployment","namespace":"shop","name":"web","uid":"1"},"replicas":3,"clusters":[{"name":"m1","replicas":3}]},"status":{}}` + "\n"
)

// codecs returns, for a kind, upstream's codec and the one that storage has.
func codecs(t testing.TB, name string) (runtime.Codec, storageCodec) {
	t.Helper()
	strategy := strategyOf(t, name)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	upstream := serializer.NewCodecFactory(scheme).LegacyCodec(strategy.kind.gv)
	return upstream, newStorageCodec(upstream, strategy.kind)
}

// expectSame decodes data with both codecs, three times with the one of storage: it decodes, copies what it kept, and decodes again.
func expectSame(t *testing.T, upstream runtime.Codec, own storageCodec, data []byte) {
	t.Helper()
	for form, target := range map[string]func() runtime.Object{
		"alone":          func() runtime.Object { return nil },
		"into an object": own.object,
	} {
		want, wantKind, wantErr := upstream.Decode(data, nil, target())
		for range 3 {
			into := target()
			got, kind, err := own.Decode(data, nil, into)
			if diff := cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(err)); diff != "" {
				t.Fatalf("%s, error of %s (-upstream +own):\n%s", form, data, diff)
			}
			if err != nil {
				break
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-upstream +own):\n%s", form, data, diff)
			}
			if diff := cmp.Diff(wantKind, kind); diff != "" {
				t.Errorf("%s, kind of %s (-upstream +own):\n%s", form, data, diff)
			}
			if into != nil && into != got {
				t.Errorf("%s, %s: another object than the one that was passed", form, data)
			}
		}
	}
}

func TestStorageIsDecodedAsUpstreamDoes(t *testing.T) {
	for reason, tc := range map[string]struct{ kind, data string }{
		"a Work":                     {workv1alpha1.KindWork, storedWork},
		"a binding":                  {workv1alpha2.KindResourceBinding, storedBinding},
		"an object without anything": {workv1alpha1.KindWork, `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1","metadata":{},"spec":{}}`},
		"fields in another order":    {workv1alpha1.KindWork, `{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","metadata":{"name":"web"},"spec":{}}`},
		"a field of the wrong case":  {workv1alpha1.KindWork, `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1","metadata":{"Name":"web"},"Spec":1}`},
		"a kind that is there twice": {workv1alpha1.KindWork, `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1","kind":"ResourceBinding"}`},
		"another kind":               {workv1alpha1.KindWork, storedBinding},
		"the former version":         {workv1alpha2.KindResourceBinding, strings.Replace(storedBinding, "v1alpha2", "v1alpha1", 1)},
		"a field of the wrong type":  {workv1alpha1.KindWork, `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1","metadata":1}`},
		"no JSON after a beginning":  {workv1alpha1.KindWork, `{"kind":"Work","apiVersion":"work.karmada.io/v1alpha1",`},
		"no JSON":                    {workv1alpha1.KindWork, "x"},
		"nothing":                    {workv1alpha1.KindWork, ""},
		"more than is kept":          {workv1alpha1.KindWork, strings.Replace(storedWork, "<&>", strings.Repeat("x", decodedSize), 1)},
	} {
		t.Run(reason, func(t *testing.T) {
			upstream, own := codecs(t, tc.kind)
			expectSame(t, upstream, own, []byte(tc.data))
		})
	}
}

// FuzzStorageCodec has both codecs decode the same, whatever is in the storage.
func FuzzStorageCodec(f *testing.F) {
	upstream, own := codecs(f, workv1alpha1.KindWork)
	f.Add([]byte(storedWork[len(own.begin):]))
	f.Add([]byte(`"metadata":{"name":"web"},"kind":"","spec":null}`))
	f.Fuzz(func(t *testing.T, rest []byte) { expectSame(t, upstream, own, append(bytes.Clone(own.begin), rest...)) })
}

func decodeWork(t testing.TB, codec runtime.Codec, data []byte) *workv1alpha1.Work {
	t.Helper()
	object, err := runtime.Decode(codec, data)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*workv1alpha1.Work)
}

func TestWhatIsWrittenIsDecodedOnce(t *testing.T) {
	upstream, own := codecs(t, workv1alpha1.KindWork)
	data, err := runtime.Encode(own, decodeWork(t, upstream, []byte(storedWork)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, own.begin) {
		t.Fatalf("what is written begins with %.80s, want %s", data, own.begin)
	}
	kept := &own.decoded.kept[own.decoded.slot(data)]
	first := decodeWork(t, own, data)
	if kept.object == nil {
		t.Fatal("nothing was kept for the second time")
	}
	first.Labels["a"] = "changed by the first caller"
	first.Spec.Workload.Manifests[0].Raw[0] = 'x'
	if diff := cmp.Diff(decodeWork(t, upstream, data), decodeWork(t, own, data)); diff != "" {
		t.Errorf("the second time another object (-stored +decoded):\n%s", diff)
	}
	if kept.object != nil {
		t.Error("the object is kept after it was decoded twice")
	}
}

// Several writers and watches decode at a time; more objects than there are slots take each other's.
func TestObjectsAreDecodedAtATime(t *testing.T) {
	_, own := codecs(t, workv1alpha1.KindWork)
	var running sync.WaitGroup
	for worker := range 8 {
		running.Go(func() {
			for i := range 20 * decodedSlots {
				data := []byte(strings.Replace(storedWork, `"uid":"1"`, fmt.Sprintf(`"uid":"%d"`, (i+worker)%(2*decodedSlots)), 1))
				object, err := runtime.Decode(own, data)
				if err != nil {
					t.Error(err)
					return
				}
				object.(*workv1alpha1.Work).Labels["worker"] = fmt.Sprint(worker) // no other worker has this object
				if want := fmt.Sprint((i + worker) % (2 * decodedSlots)); string(object.(*workv1alpha1.Work).UID) != want || len(object.(*workv1alpha1.Work).Labels) != 2 {
					t.Errorf("decoded %v, want the uid %s and two labels", object.(*workv1alpha1.Work).ObjectMeta, want)
				}
			}
		})
	}
	running.Wait()
}

// BenchmarkStorageCodec decodes a Work with upstream's codec, and twice with the one of storage.
func BenchmarkStorageCodec(b *testing.B) {
	upstream, own := codecs(b, workv1alpha1.KindWork)
	b.Run("Upstream", func(b *testing.B) {
		for b.Loop() {
			decodeWork(b, upstream, []byte(storedWork))
		}
	})
	b.Run("Twice", func(b *testing.B) {
		for b.Loop() {
			decodeWork(b, own, []byte(storedWork))
			decodeWork(b, own, []byte(storedWork))
		}
	})
}
