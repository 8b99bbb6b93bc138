package fleettest

import "testing"

func TestWatchesAreReadFromMetrics(t *testing.T) {
	text := []byte(`apiserver_longrunning_requests{component="apiserver",group="",resource="services",scope="cluster",subresource="",verb="WATCH",version="v1"} 4
apiserver_longrunning_requests{component="apiserver",group="",resource="services",scope="namespace",subresource="",verb="WATCH",version="v1"} 2
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="namespace",subresource="log",verb="CONNECT",version="v1"} 3
`)
	for resource, want := range map[string]int{"services": 2, "pods": 0, "endpointslices": 0} {
		if got := countWatches(text, resource); got != want {
			t.Errorf("there are %d watches of %s, want %d", got, resource, want)
		}
	}
}
