package merge

import "testing"

func TestReadable(t *testing.T) {
	const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/json, */*":               "application/json,application/json",
		asTable + ",application/json":         asTable + ",application/json",
		"application/vnd.kubernetes.protobuf": "",
		"application/vnd.kubernetes.protobuf,application/json": "application/json",
		"application/yaml": "",
	} {
		got, err := Readable([]string{accept})
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v, want %q", accept, got, err, want)
		}
	}
}
