package compose

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTokensOfTheControlPlaneAreFound(t *testing.T) {
	token := func(header string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:shop:robot"}`)) + ".c2ln"
	}
	own, other := token(`{"alg":"RS256","kid":"ours"}`), token(`{"alg":"RS256","kid":"theirs"}`)
	encoded := base64.StdEncoding.EncodeToString
	for name, test := range map[string]struct {
		kind, field, value string
		found              bool
	}{
		"Token":            {"Secret", "data", encoded([]byte(own)), true},
		"OtherOrder":       {"Secret", "data", encoded([]byte(token(`{"kid":"ours","typ":"JWT","alg":"RS256"}`))), true},
		"Kubeconfig":       {"Secret", "data", encoded([]byte("users:\n- name: eyJ.\n  user: {token: " + own + "}\n")), true},
		"AfterAnother":     {"Secret", "data", encoded([]byte(other + "\n" + own)), true},
		"Text":             {"Secret", "stringData", own, true},
		"OfAnotherIssuer":  {"Secret", "data", encoded([]byte(other)), false},
		"NoHeader":         {"Secret", "data", encoded([]byte(strings.Repeat("eyJ", 1000))), false},
		"NoBase64":         {"Secret", "data", own, false},
		"Empty":            {"Secret", "data", "", false},
		"AnotherKind":      {"ConfigMap", "data", own, false},
		"HeaderInPart":     {"Secret", "data", encoded([]byte("eyJhbGciOiJSUzI1NiIs")), false},
		"LongHeaderOfOurs": {"Secret", "data", encoded([]byte(token(`{"kid":"ours","x":"` + strings.Repeat("x", 1000) + `"}`))), false},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": test.kind, test.field: map[string]any{"a": "eA==", "key": test.value}}}
		err := checkTokens(obj, "ours")
		if (err != nil) != test.found {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), test.field+"[key] has a token") || strings.Contains(err.Error(), "eyJ")) {
			t.Errorf("%s: the message is %q, want one that names the key and has no value", name, err)
		}
		if err := checkTokens(obj, ""); err != nil {
			t.Errorf("%s: without a key: %v", name, err)
		}
	}
}
