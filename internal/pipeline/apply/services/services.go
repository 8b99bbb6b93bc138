package services

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// IsFamilyUnsupported returns whether the member refused a Service of IP families that it does not have.
func IsFamilyUnsupported(err error) bool {
	var refusal apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &refusal) && refusal.Status().Details != nil &&
		slices.ContainsFunc(refusal.Status().Details.Causes, func(c metav1.StatusCause) bool { return strings.HasPrefix(c.Field, "spec.ipFamilies") })
}

// takenError is a Service that was applied without some of its node ports.
type takenError struct{ error }

// TakenPorts marks an error as one of node ports alone.
func TakenPorts(err error) error { return takenError{err} }

// IsTakenPorts returns whether an error is marked so.
func IsTakenPorts(err error) bool {
	var taken takenError
	return errors.As(err, &taken)
}

// nearby is how many node ports are tried in place of one that is released.
const nearby = 16

// ReleasePorts gives a Service another node port in place of one that is not its desired port and that another Service waits for. Without that two
// Services that exchange their ports would wait for each other for ever, since the API server keeps a port that an apply does not set. Got
// is the Service after an apply of body, from which the ports that the member refused have been removed; ReleasePorts returns it as it is
// afterwards. A later attempt sets the port that the Service requests.
func ReleasePorts(body, got *unstructured.Unstructured, awaited func(port string) bool, apply func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	for _, kept := range portsOf(got) {
		held, _ := kept["nodePort"].(int64)
		own := matching(portsOf(body), kept)
		if held == 0 || own == nil || own["nodePort"] != nil || !awaited(fmt.Sprint(held)) {
			continue
		}
		for offset := int64(1); offset <= nearby; offset++ {
			own["nodePort"] = held + offset
			applied, err := apply()
			if err == nil {
				got = applied
				break
			}
			if _, taken := ssa.DropTaken(body, err); !taken {
				return nil, err
			}
		}
	}
	return got, nil
}

func portsOf(service *unstructured.Unstructured) (ports []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(service.Object, "spec", "ports")
	entries, _ := list.([]any)
	for _, entry := range entries {
		if port, ok := entry.(map[string]any); ok {
			ports = append(ports, port)
		}
	}
	return ports
}

// matching is the port with the number and protocol of another one, nil without one.
func matching(ports []map[string]any, other map[string]any) map[string]any {
	key := func(port map[string]any) string {
		protocol := port["protocol"]
		if protocol == nil {
			protocol = "TCP"
		}
		return fmt.Sprint(port["port"], "/", protocol)
	}
	for _, port := range ports {
		if key(port) == key(other) {
			return port
		}
	}
	return nil
}
