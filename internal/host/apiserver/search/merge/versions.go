package merge

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Version is a resource version of several clusters, by cluster. An empty one is of a cluster of which a client has some of the objects,
// and not yet all: such a version cannot be continued.
type Version map[string]string

// String is the base64url encoding of a JSON object whose keys are sorted, as in Karmada.
func (v Version) String() string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // a map of strings has no errors
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

var errVersion = errors.New("it is no resource version of this list")

// ParseVersion reads what String returns. Nothing and "0" give nil, which is any version.
func ParseVersion(text string) (Version, error) {
	if text == "" || text == "0" {
		return nil, nil
	}
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errVersion
	}
	var v Version
	if err := json.Unmarshal(content, &v); err != nil || v == nil {
		return nil, errVersion
	}
	return v, nil
}

// IsVersion returns whether text is a version of several clusters, and not one of a single API server, which is a number.
func IsVersion(text string) bool {
	v, err := ParseVersion(text)
	return err == nil && v != nil
}

// Position is where the next page of a list begins.
type Position struct {
	// Version is that of the whole list.
	Version string `json:"rv"`
	// Cluster is the first of the page, and Continue its token; empty for its beginning.
	Cluster  string `json:"cluster"`
	Continue string `json:"continue,omitempty"`
}

// String is what a client sends in the parameter continue.
func (p Position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // strings have no errors
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

var errPosition = errors.New("the token in continue is not one of this list")

// ParsePosition reads what String returns.
func ParsePosition(text string) (p Position, of Version, err error) {
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err == nil {
		of, err = ParseVersion(p.Version)
	}
	if err != nil || of[p.Cluster] == "" {
		return Position{}, nil, errPosition
	}
	return p, of, nil
}

// Clusters are those that have a version, sorted.
func (v Version) Clusters() []string { return slices.Sorted(maps.Keys(v)) }

// VersionOf is the resource version of an object or Table.
func VersionOf(object map[string]any) string {
	text, _, _ := unstructured.NestedString(object, "metadata", "resourceVersion")
	return text
}

// Earlier returns whether a cluster is at an earlier version than one that it had. A watch from a version that is still to come begins
// without an error and shows nothing.
func Earlier(now, had string) bool {
	order, err := resourceversion.CompareResourceVersion(now, had)
	return err == nil && order < 0
}
