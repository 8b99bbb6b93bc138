package retain

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/fields"
)

// serviceOwnership is which of a Service's fields that an API server may fill in have a field manager.
type serviceOwnership struct {
	healthCheckNodePort, ipFamilies, ipFamilyPolicy bool
	// nodePorts has the keys of the ports whose nodePort has a field manager.
	nodePorts []portKey
}

// portKey identifies an entry of spec.ports; managed fields use the list keys port and protocol.
type portKey struct {
	Port     int64  `json:"port"`
	Protocol string `json:"protocol"`
}

func (o serviceOwnership) nodePort(port map[string]any) bool {
	number, _ := fields.Int64(port["port"])
	protocol, ok := port["protocol"].(string)
	if !ok {
		protocol = "TCP"
	}
	for _, key := range o.nodePorts {
		if key.Port == number && key.Protocol == protocol {
			return true
		}
	}
	return false
}

// ownedFields reads metadata.managedFields. An object without them owns nothing.
func ownedFields(obj *unstructured.Unstructured) serviceOwnership {
	owned := serviceOwnership{}
	entries, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	list, _ := entries.([]any)
	for _, entry := range list {
		manager, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		spec, _, _ := unstructured.NestedFieldNoCopy(manager, "fieldsV1", "f:spec")
		fields, ok := spec.(map[string]any)
		if !ok {
			continue
		}
		for name, chosen := range map[string]*bool{
			"f:healthCheckNodePort": &owned.healthCheckNodePort, "f:ipFamilies": &owned.ipFamilies, "f:ipFamilyPolicy": &owned.ipFamilyPolicy,
		} {
			if _, ok := fields[name]; ok {
				*chosen = true
			}
		}
		ports, _ := fields["f:ports"].(map[string]any)
		for key, value := range ports {
			port, _ := value.(map[string]any)
			if _, ok := port["f:nodePort"]; !ok {
				continue
			}
			if parsed, ok := parsePortKey(key); ok {
				owned.nodePorts = append(owned.nodePorts, parsed)
			}
		}
	}
	return owned
}

// parsePortKey reads a field-set key such as k:{"port":80,"protocol":"TCP"}.
func parsePortKey(key string) (portKey, bool) {
	parsed := portKey{}
	if len(key) < 2 || key[:2] != "k:" {
		return parsed, false
	}
	if err := json.Unmarshal([]byte(key[2:]), &parsed); err != nil {
		return parsed, false
	}
	if parsed.Protocol == "" {
		parsed.Protocol = "TCP"
	}
	return parsed, true
}
