package search

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	o, err := merge.ObjectOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func expectJSON(t *testing.T, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, want), object(t, string(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTranslate(t *testing.T) {
	both := merge.Version{"m1": "11", "m2": "22"}.String()
	c := &call{}
	c.info, _ = parse(&http.Request{Method: http.MethodPut, URL: &url.URL{}}, "/api/v1/namespaces/shop/configmaps/a")
	for name, test := range map[string]struct{ kind, body, want string }{
		"an object": {"application/json",
			`{"metadata":{"resourceVersion":"` + both + `","annotations":{"resource.karmada.io/cached-from-cluster":"m1","own":"1"}},"data":{"n":"1"}}`,
			`{"metadata":{"resourceVersion":"22","annotations":{"own":"1"}},"data":{"n":"1"}}`},
		"a version of one API server": {"application/json", `{"metadata":{"resourceVersion":"5"}}`, `{"metadata":{"resourceVersion":"5"}}`},
		"a version of another cluster": {"application/json",
			`{"metadata":{"resourceVersion":"` + merge.Version{"m1": "11"}.String() + `"}}`, ""},
		"an apply patch":            {"application/apply-patch+yaml", "metadata: {resourceVersion: " + both + "}", `{"metadata":{"resourceVersion":"22"}}`},
		"the options of a deletion": {"application/json", `{"preconditions":{"resourceVersion":"` + both + `"}}`, `{"preconditions":{"resourceVersion":"22"}}`},
		"broken protobuf":           {"application/vnd.kubernetes.protobuf", "k8s", ""},
		"another encoding":          {"application/cbor", "x", ""},
		"no JSON":                   {"application/json", "{", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.translate([]byte(test.body), http.Header{"Content-Type": {test.kind}}, "m2")
			if test.want == "" {
				if err == nil {
					t.Errorf("got %s, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			expectJSON(t, object(t, string(got)), test.want)
		})
	}
	got, err := c.translate([]byte(`[{"op":"test","path":"/metadata/resourceVersion","value":"`+both+`"},{"op":"add","path":"/data/n","value":"1"}]`),
		http.Header{"Content-Type": {"application/json-patch+json"}}, "m1")
	if want := `[{"op":"test","path":"/metadata/resourceVersion","value":"11"},{"op":"add","path":"/data/n","value":"1"}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestProtobufIsTranslated: typed clients send objects of built-in kinds, and the options of deletions, as protobuf.
func TestProtobufIsTranslated(t *testing.T) {
	c := &call{}
	c.info, _ = parse(&http.Request{Method: http.MethodPut, URL: &url.URL{}}, "/api/v1/namespaces/shop/configmaps/a")
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("there is no protobuf")
	}
	version := merge.Version{"m1": "11"}.String()
	for want, sent := range map[string]runtime.Object{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"11"},"data":{"n":"1"}}`: &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version}, Data: map[string]string{"n": "1"}},
		`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"resourceVersion":"11"}}`: &metav1.DeleteOptions{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{ResourceVersion: &version}},
	} {
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), sent)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}
		got, err := c.translate(body, header, "m1")
		if err != nil || header.Get("Content-Type") != runtime.ContentTypeJSON {
			t.Fatalf("%v, %v", header, err)
		}
		expectJSON(t, object(t, string(got)), want)
	}
}
