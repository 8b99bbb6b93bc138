package drift

import (
	"encoding/json"
	"strings"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// Host is the host of a request of the control plane for the episodes of an agent, through the tunnel. Requests of users have the host of the
// member there, whatever they send.
const Host = "drift.flagship.internal"

// Path is where a server has the episodes of the members that it serves, for other servers: one cluster for each request.
const Path = "/flagship/drift"

const (
	// maxValue is how many bytes of a value are kept, maxPath of a path, maxManager of the name of a field manager, maxName of the name of
	// an object or a Work.
	maxValue, maxPath, maxManager, maxName = 96, 512, 128, 253
	// hidden stands for a value of a Secret.
	hidden = "(hidden)"
)

// Text is a value as a report shows it: JSON, shortened; "" for a field that is not there.
func Text(value any, exists, secret bool) string {
	switch {
	case !exists:
		return ""
	case secret:
		return hidden
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return "(unreadable)" // cannot happen: it was read from JSON
	}
	return shortened(string(raw), maxValue)
}

// Accept returns what an agent answers about its cluster, without more than Episodes has, and about no other cluster.
func Accept(cluster string, objects []fleetv1alpha1.DriftedObject) []fleetv1alpha1.DriftedObject {
	objects = objects[:min(len(objects), MaxObjects)]
	for i := range objects {
		o := &objects[i]
		o.Cluster, o.Mode, o.ValuesHidden = cluster, "", ""
		for _, name := range []*string{&o.Work, &o.Object.APIVersion, &o.Object.Kind, &o.Object.Namespace, &o.Object.Name} {
			*name = shortened(*name, maxName)
		}
		o.PutBack, o.OmittedFields = max(o.PutBack, 0), max(o.OmittedFields, 0)
		o.Fields, o.Recent = o.Fields[:min(len(o.Fields), 2*MaxFields)], o.Recent[:min(len(o.Recent), MaxRecent)]
		for j := range o.Fields {
			o.Fields[j] = Bounded(o.Fields[j])
		}
		for j := range o.Recent {
			o.Recent[j].Manager = shortened(o.Recent[j].Manager, maxManager)
		}
	}
	return objects
}

// Bounded returns a field without more text than is kept of one: whoever writes in a member chooses paths and names of managers.
func Bounded(field fleetv1alpha1.DriftedField) fleetv1alpha1.DriftedField {
	field.Path, field.Manager = shortened(field.Path, maxPath), shortened(field.Manager, maxManager)
	field.Wanted, field.Found = shortened(field.Wanted, maxValue+len("…")), shortened(field.Found, maxValue+len("…"))
	return field
}

func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
