package compose

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// chosenNodePorts finds the node ports of a Service that an override set, by position. Pruning removes node ports of a
// Service that needs none in the member; one that an override sets stays.
func chosenNodePorts(template, edited *unstructured.Unstructured) map[int]any {
	if template.GetKind() != "Service" || template.GetAPIVersion() != "v1" {
		return nil
	}
	before, after := servicePorts(template), servicePorts(edited)
	chosen := map[int]any{}
	for i, port := range after {
		number, ok := port["nodePort"]
		if ok && (i >= len(before) || before[i]["nodePort"] != number) {
			chosen[i] = number
		}
	}
	return chosen
}

func restoreNodePorts(edited *unstructured.Unstructured, chosen map[int]any) {
	if len(chosen) == 0 {
		return
	}
	ports := servicePorts(edited)
	for i, number := range chosen {
		if i < len(ports) {
			ports[i]["nodePort"] = number
		}
	}
}

// servicePorts returns the ports themselves, not copies.
func servicePorts(service *unstructured.Unstructured) []map[string]any {
	spec, _ := service.Object["spec"].(map[string]any)
	list, _ := spec["ports"].([]any)
	ports := make([]map[string]any, 0, len(list))
	for _, entry := range list {
		port, _ := entry.(map[string]any)
		if port == nil {
			port = map[string]any{}
		}
		ports = append(ports, port)
	}
	return ports
}
