package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// KindPolicy decides what happens to objects of particular kinds. Its methods are called often, from many goroutines,
// and answer from memory, Spare excepted.
type KindPolicy interface {
	// Hold returns why objects of a kind must wait in a cluster, or "" if they need not. It is called again every second.
	Hold(ctx context.Context, cluster string, kind schema.GroupVersionKind) string
	// Vet returns why an object that exists must not be changed to what is desired, or "" if it may be. Soon means that the
	// answer will be another one within moments.
	Vet(ctx context.Context, conn *member.Conn, desired, live *unstructured.Unstructured) (reason string, soon bool)
	// Differences lists how an object that another owner made differs from what is desired; if it does not, it is taken
	// over. Known is false for kinds that are taken over only with Overwrite.
	Differences(desired, live *unstructured.Unstructured) (differences []string, known bool)
	// Spare returns whether an object that is to be deleted must be left in the member instead, without our marks.
	Spare(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured) (bool, error)
}

// NoKindPolicy is the KindPolicy of kinds that have no particularities.
type NoKindPolicy struct{}

func (NoKindPolicy) Hold(context.Context, string, schema.GroupVersionKind) string { return "" }

func (NoKindPolicy) Vet(context.Context, *member.Conn, *unstructured.Unstructured, *unstructured.Unstructured) (string, bool) {
	return "", false
}

func (NoKindPolicy) Differences(*unstructured.Unstructured, *unstructured.Unstructured) ([]string, bool) {
	return nil, false
}

func (NoKindPolicy) Spare(context.Context, *member.Conn, *unstructured.Unstructured) (bool, error) {
	return false, nil
}

// heldError means that an object is as it was, on purpose.
type heldError struct{ error }

func IsHeld(err error) bool {
	var held heldError
	return errors.As(err, &held)
}

// vet returns an error if an object must not be changed.
func (w *Writer) vet(ctx context.Context, try attempt, live *unstructured.Unstructured) error {
	reason, soon := w.KindPolicy.Vet(ctx, try.Conn, try.desired, live)
	switch {
	case reason == "":
		return nil
	case soon:
		return Transient(heldError{errors.New(reason)})
	default:
		return heldError{errors.New(reason)}
	}
}

// judge is the verdict about an object that exists.
func (w *Writer) judge(ctx context.Context, try attempt, live *unstructured.Unstructured) (ssa.Verdict, error) {
	verdict, err := ssa.Judge(try.Conn.ControlPlane(), try.work, try.desired, live, w.otherOwner(ctx))
	if verdict != ssa.Foreign || ssa.IsManaged(live) || try.Conn.ControlPlane().Other(live) != "" {
		return verdict, err
	}
	differences, known := w.KindPolicy.Differences(try.desired, live)
	switch {
	case !known:
		return verdict, err
	case len(differences) == 0:
		return ssa.Adopting, nil
	default:
		return ssa.Foreign, fmt.Errorf("%w. It differs in %s", err, strings.Join(differences, ", "))
	}
}

// keepsOnRemoval returns whether an object that we took over stays: it may have objects in it, or of its kind, that are not ours.
func keepsOnRemoval(obj *unstructured.Unstructured) bool {
	kind := obj.GroupVersionKind()
	return ssa.IsNamespace(obj) || kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition"
}
