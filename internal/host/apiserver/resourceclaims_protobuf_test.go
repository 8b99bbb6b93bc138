package apiserver_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// protobufSchema is the published schema as far as the recorded answers go: for each message its field numbers with
// name and type. It is written down here a second time so that a wrong number in the code cannot hide. A star marks
// repeated fields.
var protobufSchema = map[string]map[uint64]string{
	"Unknown":  {1: "typeMeta TypeMeta", 2: "raw bytes", 3: "contentEncoding string", 4: "contentType string"},
	"TypeMeta": {1: "apiVersion string", 2: "kind string"},
	"Time":     {1: "seconds int", 2: "nanos int"},
	"Entry":    {1: "key string", 2: "value string"},
	"ObjectMeta": {
		1: "name string", 2: "generateName string", 3: "namespace string", 4: "selfLink string", 5: "uid string",
		6: "resourceVersion string", 7: "generation int", 8: "creationTimestamp Time", 9: "deletionTimestamp Time", 10: "deletionGracePeriodSeconds int",
		11: "labels map", 12: "annotations map", 13: "ownerReferences *Owner", 14: "finalizers *string", 17: "managedFields *Manager",
	},
	"Owner": {1: "kind string", 3: "name string", 4: "uid string", 5: "apiVersion string", 6: "controller bool", 7: "blockOwnerDeletion bool"},
	"Manager": {
		1: "manager string", 2: "operation string", 3: "apiVersion string", 4: "time Time", 6: "fieldsType string",
		7: "fieldsV1 Fields", 8: "subresource string",
	},
	"Fields":            {1: "raw json"},
	"ListMeta":          {1: "selfLink string", 2: "resourceVersion string", 3: "continue string", 4: "remainingItemCount int"},
	"ResourceClaim":     {1: "metadata ObjectMeta", 2: "spec Spec", 3: "status ClaimStatus"},
	"ResourceClaimList": {1: "metadata ListMeta", 2: "items *ResourceClaim"},
	"Spec":              {1: "resourceClassName string", 2: "parametersRef Parameters", 3: "allocationMode string"},
	"Parameters":        {1: "apiGroup string", 2: "kind string", 3: "name string"},
	"ClaimStatus":       {1: "driverName string", 2: "allocation Allocation", 3: "reservedFor *Consumer", 4: "deallocationRequested bool"},
	"Allocation":        {1: "resourceHandles *Handle", 2: "availableOnNodes NodeSelector", 3: "shareable bool"},
	"Handle":            {1: "driverName string", 2: "data string"},
	"Consumer":          {1: "apiGroup string", 3: "resource string", 4: "name string", 5: "uid string"},
	"NodeSelector":      {1: "nodeSelectorTerms *Term"},
	"Term":              {1: "matchExpressions *Requirement", 2: "matchFields *Requirement"},
	"Requirement":       {1: "key string", 2: "operator string", 3: "values *string"},
	"Status": {
		1: "metadata ListMeta", 2: "status string", 3: "message string", 4: "reason string", 5: "details Details", 6: "code int",
	},
	"Details": {1: "name string", 2: "group string", 3: "kind string", 4: "causes *Cause", 5: "retryAfterSeconds int", 6: "uid string"},
	"Cause":   {1: "reason string", 2: "message string", 3: "field string"},
}

// decodeProtobuf turns an answer in protobuf into what the same answer in JSON would be.
func decodeProtobuf(data []byte) (any, error) {
	const prefix = "k8s\x00"
	if !strings.HasPrefix(string(data), prefix) {
		return nil, errors.New("no prefix of Kubernetes protobuf")
	}
	envelope, err := decodeMessage("Unknown", data[len(prefix):])
	if err != nil {
		return nil, err
	}
	object := map[string]any{}
	typeMeta, _ := envelope["typeMeta"].(map[string]any)
	for key, value := range typeMeta {
		object[key] = value
	}
	raw, _ := envelope["raw"].(string)
	content, err := decodeMessage(fmt.Sprint(object["kind"]), []byte(raw))
	for key, value := range content {
		object[key] = value
	}
	return object, err
}

func decodeMessage(name string, data []byte) (map[string]any, error) {
	schema, ok := protobufSchema[name]
	if !ok {
		return nil, fmt.Errorf("no schema of %s", name)
	}
	decoded := map[string]any{}
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		value, m := binary.Uvarint(data[max(n, 0):])
		if n <= 0 || m <= 0 {
			return nil, errors.New("a message ends too early")
		}
		data = data[n+m:]
		number, isNumber := key>>3, key&7 == 0
		var content []byte
		if !isNumber {
			if key&7 != 2 || value > uint64(len(data)) {
				return nil, fmt.Errorf("%s has no such field %d", name, number)
			}
			content, data = data[:value], data[value:]
		}
		field, kind, _ := strings.Cut(schema[number], " ")
		if field == "" {
			return nil, fmt.Errorf("%s has no field %d", name, number)
		}
		if err := decodeField(decoded, field, kind, isNumber, value, content); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, field, err)
		}
	}
	return decoded, nil
}

// decodeField adds one field to the message; what JSON would leave out is left out.
func decodeField(into map[string]any, name, kind string, isNumber bool, number uint64, content []byte) error {
	kind, repeated := strings.CutPrefix(kind, "*")
	if isNumber {
		if number != 0 && kind == "bool" {
			into[name] = true
		} else if number != 0 {
			into[name] = float64(number)
		}
		return nil
	}
	switch kind {
	case "string", "bytes":
		if repeated {
			list, _ := into[name].([]any)
			into[name] = append(list, string(content))
		} else if len(content) > 0 {
			into[name] = string(content)
		}
		return nil
	case "json":
		var value any
		err := json.Unmarshal(content, &value)
		into[name] = value
		return err
	case "map":
		entry, err := decodeMessage("Entry", content)
		pairs, _ := into[name].(map[string]any)
		if pairs == nil {
			pairs = map[string]any{}
		}
		pairs[fmt.Sprint(entry["key"])] = orEmpty(entry["value"])
		into[name] = pairs
		return err
	}
	message, err := decodeMessage(kind, content)
	if err != nil {
		return err
	}
	switch {
	case repeated:
		list, _ := into[name].([]any)
		into[name] = append(list, message)
	case kind == "Time":
		if message["seconds"] != nil {
			into[name] = "<time>"
		}
	case kind == "Fields":
		into[name] = message["raw"]
	default:
		into[name] = message
	}
	return nil
}
