package compose

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxTokenHeader is how many bytes the header of a token has at most, in base64: those of this control plane have about 100.
const maxTokenHeader = 512

// checkTokens refuses a Secret with a token of a service account of this control plane among its values, whatever its type is: whoever
// reads Secrets in the member would act here as that account. Key is the id of the key that signs them, which their headers have.
func checkTokens(obj *unstructured.Unstructured, key string) error {
	if key == "" || obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" {
		return nil
	}
	for _, field := range []string{"data", "stringData"} {
		entries, _, _ := unstructured.NestedFieldNoCopy(obj.Object, field)
		values, _ := entries.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			text, _ := values[name].(string)
			value := []byte(text)
			if field == "data" {
				value, _ = base64.StdEncoding.DecodeString(text) // what is no base64 is refused by the member
			}
			if signedWith(value, key) {
				return fmt.Errorf("%s[%s] has a token of a service account of this control plane, which is never sent to members: remove it from the Secret", field, name)
			}
		}
	}
	return nil
}

// signedWith returns whether a JSON web token that names the key is in a text, such as a kubeconfig.
func signedWith(text []byte, key string) bool {
	begin := []byte("eyJ") // {" in base64
	for at := bytes.Index(text, begin); at >= 0; at = bytes.Index(text, begin) {
		text = text[at:]
		header, _, found := bytes.Cut(text[:min(len(text), maxTokenHeader)], []byte("."))
		if found {
			decoded := make([]byte, base64.RawURLEncoding.DecodedLen(len(header)))
			var named struct {
				Key string `json:"kid"`
			}
			if n, err := base64.RawURLEncoding.Decode(decoded, header); err == nil && json.Unmarshal(decoded[:n], &named) == nil && named.Key == key {
				return true
			}
		}
		text = text[len(begin):]
	}
	return false
}
