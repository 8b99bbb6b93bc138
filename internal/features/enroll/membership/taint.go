package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// TaintEdit adds one taint to a Cluster, or removes some.
type TaintEdit struct {
	Taint corev1.Taint
	// Remove takes away the taints with the key, those with the effect only if there is one.
	Remove bool
	// Overwrite lets an added taint change the value of one that is there.
	Overwrite bool
}

// Cordon is the edit that keeps new objects away from a cluster; with remove, the one that ends that.
func Cordon(remove bool) TaintEdit {
	return TaintEdit{
		Taint:  corev1.Taint{Key: clusterv1alpha1.TaintClusterUnscheduler, Effect: corev1.TaintEffectNoSchedule},
		Remove: remove,
	}
}

// ParseTaint reads an edit as kubectl writes it: key=value:Effect or key:Effect adds, key:Effect- or key- removes.
func ParseTaint(text string) (TaintEdit, error) {
	rest, remove := strings.CutSuffix(text, "-")
	rest, effect, _ := strings.Cut(rest, ":")
	key, value, _ := strings.Cut(rest, "=")
	edit := TaintEdit{Taint: corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, Remove: remove}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return TaintEdit{}, fmt.Errorf("taint %q: key %q: %s", text, key, strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return TaintEdit{}, fmt.Errorf("taint %q: value %q: %s", text, value, strings.Join(problems, "; "))
	}
	switch edit.Taint.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return edit, nil
	case "":
		if remove {
			return edit, nil
		}
	}
	return TaintEdit{}, fmt.Errorf("taint %q: effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", text, effect)
}

// EditTaints makes the edits to one Cluster, in order. It returns false if they change nothing.
func EditTaints(ctx context.Context, hub *rest.Config, cluster string, edits []TaintEdit) (bool, error) {
	c, err := newHubClient(hub)
	if err != nil {
		return false, err
	}
	return ChangeTaints(ctx, c, cluster, edits)
}

// ChangeTaints is EditTaints with a client of the control plane.
func ChangeTaints(ctx context.Context, hub client.Client, name string, edits []TaintEdit) (changed bool, err error) {
	// Whether a cluster is well shows in its taints too, so another client may be writing them.
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := &clusterv1alpha1.Cluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
			return err
		}
		taints, err := edited(cluster.Spec.Taints, edits)
		if err != nil {
			return err
		}
		if changed = !slices.EqualFunc(cluster.Spec.Taints, taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }); !changed {
			return nil
		}
		before := cluster.DeepCopy()
		cluster.Spec.Taints = taints
		_, err = hubclient.PatchLocked(ctx, hub, before, cluster, client.FieldOwner(memberaccount.FieldManager))
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("there is no cluster %q", name)
	case err != nil:
		return false, fmt.Errorf("changing the taints of cluster %q: %w", name, err)
	}
	return changed, nil
}

// edited returns taints after the edits.
func edited(taints []corev1.Taint, edits []TaintEdit) ([]corev1.Taint, error) {
	taints = slices.Clone(taints)
	for _, e := range edits {
		if e.Remove {
			taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool {
				return t.Key == e.Taint.Key && (e.Taint.Effect == "" || t.Effect == e.Taint.Effect)
			})
			continue
		}
		at := slices.IndexFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&e.Taint) })
		switch {
		case at < 0:
			taints = append(taints, e.Taint)
		case taints[at].Value == e.Taint.Value:
		case e.Overwrite:
			taints[at].Value = e.Taint.Value
		default:
			return nil, fmt.Errorf("there is a taint %s:%s already, with value %q; --overwrite changes it",
				e.Taint.Key, e.Taint.Effect, taints[at].Value)
		}
	}
	return taints, nil
}
