package versions

import (
	"maps"
	"strings"
	"testing"
)

func TestFixedServicesAreRead(t *testing.T) {
	got, err := ParseServices(map[string]string{"tools/converter": "192.0.2.10:9443", "tools/other:8443": "[2001:db8::1]:443"})
	want := map[serviceKey]string{
		{"tools", "converter", 443}: "192.0.2.10:9443",
		{"tools", "other", 8443}:    "[2001:db8::1]:443",
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for service, address := range map[string]string{
		"converter": "h:1", "tools/": "h:1", "Tools/x": "h:1", "tools/x:": "h:1", "tools/x:70000": "h:1", "tools/x:0": "h:1",
		"a/b": "h", "a/c": ":1", "a/d": "h:x",
	} {
		if _, err := ParseServices(map[string]string{service: address}); err == nil || !strings.Contains(err.Error(), service) {
			t.Errorf("%s=%s gives %v", service, address, err)
		}
	}
	if _, err := ParseServices(map[string]string{"a/b": "h:1", "a/b:443": "h:2"}); err == nil {
		t.Error("a Service may be given twice")
	}
}
