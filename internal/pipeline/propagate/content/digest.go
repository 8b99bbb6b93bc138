package content

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

const (
	// BaselineAnnotation on a template claimed by a lazy policy is the digest of its content
	// at that time: while it is the same, the policy waits.
	BaselineAnnotation = "resourcetemplate.karmada.io/lazy-baseline"

	countedPrefix = "g"
)

// Digest differs between two states of a template. Status is no part of it, nor are the keys of a claim.
type Digest struct {
	// User is what users and their tools change: spec, data, labels, annotations.
	User string
	// Marks are labels and annotations for this control plane.
	Marks string
	// Kind is what users say about how to read objects of the kind; empty if nothing.
	Kind string
}

// Counted returns whether User is a generation instead of the content itself.
func (d Digest) Counted() bool { return strings.HasPrefix(d.User, countedPrefix) }

// String is the digest as annotations hold it.
func (d Digest) String() string {
	if d.Kind == "" {
		return d.User + "." + d.Marks
	}
	return d.User + "." + d.Marks + "." + d.Kind
}

// UnknownDependencies is the digest as a binding has it while the dependencies of its template are unknown: equal to none, so that
// the interpreter is called again, also after a restart.
func (d Digest) UnknownDependencies() string {
	d.Kind += "?"
	return d.String()
}

// Parse is the inverse of String; anything unknown equals no digest.
func Parse(s string) Digest {
	user, rest, _ := strings.Cut(s, ".")
	marks, kind, _ := strings.Cut(rest, ".")
	return Digest{User: user, Marks: marks, Kind: kind}
}

// Of computes the digest of a template. Where a generation counts changes of content, the metadata is enough, if that count
// is good enough for the caller: to some kinds, changed annotations are a new generation, whichever component wrote them. Otherwise content
// reads the object. Secrets are not hashed, since more users may read bindings than Secrets: their resource version replaces
// the hash.
func Of(kind schema.GroupKind, meta metav1.Object, counted bool, content func() (*unstructured.Unstructured, error)) (Digest, error) {
	user, marks := splitKeys(meta)
	digest := Digest{Marks: hashOf(marks)}
	if len(marks) == 0 {
		digest.Marks = ""
	}
	switch {
	case counted && meta.GetGeneration() > 0:
		digest.User = countedPrefix + strconv.FormatInt(meta.GetGeneration(), 10) + "-" + hashOf(user)
	case kind == schema.GroupKind{Kind: "Secret"}:
		digest.User = "r" + meta.GetResourceVersion()
	default:
		obj, err := content()
		if err != nil {
			return Digest{}, err
		}
		body := map[string]any{"": user}
		for field, value := range obj.Object {
			if field != "metadata" && field != "status" {
				body[field] = value
			}
		}
		digest.User = "h" + hashOf(body)
	}
	return digest, nil
}

// splitKeys divides labels and annotations into those of users and those that
// are for this control plane. Labels and annotations of equal key stay apart.
func splitKeys(meta metav1.Object) (user, marks map[string]string) {
	user, marks = map[string]string{}, map[string]string{}
	sort := func(prefix, key, value string) {
		switch {
		case isOwnKey(key):
		case strings.Contains(key, ".karmada.io") && key != policyv1alpha1.NamespaceSkipAutoPropagationLabel:
			marks[prefix+key] = value
		default:
			user[prefix+key] = value
		}
	}
	for key, value := range meta.GetLabels() {
		sort("l:", key, value)
	}
	for key, value := range meta.GetAnnotations() {
		sort("a:", key, value)
	}
	return user, marks
}

// isOwnKey returns whether propagate writes a key to templates.
func isOwnKey(key string) bool {
	if key == BaselineAnnotation {
		return true
	}
	for _, own := range policy.ClaimLabels {
		if key == own {
			return true
		}
	}
	for _, own := range policy.ClaimAnnotations {
		if key == own {
			return true
		}
	}
	return false
}

// hashOf is a short digest of a value that JSON can hold.
func hashOf(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		// Objects come from JSON; whatever this is, it never equals another.
		raw = fmt.Appendf(nil, "%p %v", value, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:10])
}
