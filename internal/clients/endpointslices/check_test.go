package endpointslices

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestCheck has a case for every field that other members would get.
func TestCheck(t *testing.T) {
	type slice = discoveryv1.EndpointSlice
	at := func(kind discoveryv1.AddressType, addresses ...string) func(*slice) {
		return func(s *slice) {
			s.AddressType, s.Endpoints = kind, []discoveryv1.Endpoint{{Addresses: addresses}}
		}
	}
	for reason, c := range map[string]struct {
		edit func(*slice)
		want string // in the error; empty means none
	}{
		"as it should be":         {func(*slice) {}, ""},
		"of IPv4":                 {at("IPv4", "10.0.0.1"), ""},
		"of names":                {at("FQDN", "one.example.com"), ""},
		"without endpoints":       {func(s *slice) { s.Endpoints = nil }, ""},
		"a port of any number":    {func(s *slice) { s.Ports = []discoveryv1.EndpointPort{{}} }, ""},
		"loopback":                {at("IPv4", "127.0.0.1"), "loopback"},
		"loopback of IPv6":        {at("IPv6", "::1"), "loopback"},
		"link-local":              {at("IPv4", "10.0.0.1", "169.254.169.254"), "link-local"},
		"link-local of IPv6":      {at("IPv6", "fe80::1"), "link-local"},
		"unspecified":             {at("IPv4", "0.0.0.0"), "unspecified"},
		"unspecified of IPv6":     {at("IPv6", "::"), "unspecified"},
		"multicast":               {at("IPv4", "224.0.0.1"), "multicast"},
		"broadcast":               {at("IPv4", "255.255.255.255"), "broadcast"},
		"IPv4 written as IPv6":    {at("IPv6", "::ffff:127.0.0.1"), "type"},
		"IPv6 in a slice of IPv4": {at("IPv4", "2001:db8::1"), "type"},
		"with a zone":             {at("IPv6", "fe80::1%eth0"), "type"},
		"no address at all":       {at("IPv4", "metadata"), "type"},
		"a name with spaces":      {at("FQDN", "a b"), "DNS name"},
		"a type of its own":       {at("Mine", "10.0.0.1"), "type"},
		"none":                    {at("IPv4"), "0 addresses"},
		"101 addresses":           {at("IPv4", slices.Repeat([]string{"10.0.0.1"}, 101)...), "101 addresses"},
		"1,001 endpoints":         {func(s *slice) { s.Endpoints = slices.Repeat(s.Endpoints[:1], 1001) }, "1001 endpoints"},
		"101 ports":               {func(s *slice) { s.Ports = slices.Repeat(s.Ports[:1], 101) }, "101 ports"},
		"a host name with dots":   {func(s *slice) { s.Endpoints[0].Hostname = new("a.b") }, "host name"},
		"a zone with spaces":      {func(s *slice) { s.Endpoints[0].Zone = new("a b") }, "zone"},
		"a long zone":             {func(s *slice) { s.Endpoints[0].Zone = new(strings.Repeat("a", 64)) }, "zone"},
		"a node with spaces":      {func(s *slice) { s.Endpoints[0].NodeName = new("a b") }, "node"},
		"a port of no number":     {func(s *slice) { s.Ports[0].Port = new(int32(0)) }, "ports[0]"},
		"a large port":            {func(s *slice) { s.Ports[0].Port = new(int32(65536)) }, "ports[0]"},
		"a port's long name":      {func(s *slice) { s.Ports[0].Name = new(strings.Repeat("a", 64)) }, "ports[0]"},
		"a protocol of its own":   {func(s *slice) { s.Ports[0].Protocol = new(corev1.Protocol("HTTP")) }, "protocol"},
		"an application protocol": {func(s *slice) { s.Ports[0].AppProtocol = new("not a name") }, "qualified name"},
		"a name with slashes":     {func(s *slice) { s.Name = "../x" }, "name"},
	} {
		s := full()
		c.edit(s)
		switch err := Check(s); {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", reason, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error is %v, want one with %q", reason, err, c.want)
		}
	}
}
