package merge

import (
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Readable returns the parts of Accept headers that ask for JSON, which is all that answers of several members are made of.
func Readable(accept []string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		part = strings.TrimSpace(part)
		kind, _, err := mime.ParseMediaType(part)
		switch {
		case part == "" || err != nil:
		case kind == "application/json":
			parts = append(parts, part)
		case kind == "*/*" || kind == "application/*":
			parts = append(parts, "application/json")
		}
	}
	if len(parts) == 0 && strings.TrimSpace(strings.Join(accept, "")) != "" {
		return "", apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "", clusterv1alpha1.Resource(""), "", "only application/json is accepted here", 0, false)
	}
	if len(parts) == 0 {
		return "application/json", nil
	}
	return strings.Join(parts, ","), nil
}
