package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/contents"
)

// DoubtPatience is how long a namespace of which not everything can be listed is kept as it is, before it is released.
const DoubtPatience = time.Minute

// spareNamespace returns whether a namespace that is to be deleted must be left in the member: it holds something that this
// control plane did not make, has preserved or still applies. An error means that this cannot be decided yet.
//
// Between the list and the deletion others may create an object that is deleted with the namespace. Kubernetes has no deletion
// of a namespace that depends on its contents, so that this moment, some tens of milliseconds, cannot be closed.
func (w *Writer) spareNamespace(ctx context.Context, conn *member.Conn, work types.NamespacedName, namespace string) (bool, error) {
	leaving, _ := w.leavingWorks.Load(work)
	works, _ := leaving.([]types.NamespacedName)
	if contents.AnyLeft(ctx, w.Hub, works) {
		return false, Transient(errors.New("what else was applied in the namespace is on its way out"))
	}
	found, err := contents.Of(ctx, w.Hub, conn, namespace)
	switch {
	case err != nil:
		return false, fmt.Errorf("looking for what namespace %s holds: %w", namespace, err)
	case len(found.Others) > 0:
		w.doubts.End(work)
		w.publishReleased(conn, "occupied", fmt.Sprintf(
			"Namespace %s stays in the cluster, without the marks of the control plane: it holds %s, which the control plane did not make, has preserved or still applies",
			namespace, named(found.Others)))
		return true, nil
	case len(found.Pending) > 0:
		w.leavingWorks.Store(work, found.Pending)
		return false, Transient(fmt.Errorf("%d other objects in the namespace are on their way out", len(found.Pending)))
	case len(found.Unknown) > 0 && w.doubts.Since(work, w.Clock.Now()) < DoubtPatience:
		return false, fmt.Errorf("it is not certain that namespace %s holds nothing else: cannot list %s", namespace, named(found.Unknown))
	case len(found.Unknown) > 0:
		w.doubts.End(work)
		w.publishReleased(conn, "unknown", fmt.Sprintf(
			"Namespace %s stays in the cluster, without the marks of the control plane: it may hold what the control plane did not make, since it cannot list %s",
			namespace, named(found.Unknown)))
		return true, nil
	default:
		w.doubts.End(work)
		return false, nil
	}
}

// publishReleased reports that a namespace was left in a member. The Work and the namespace on the hub are gone soon, so it is
// reported on the Cluster.
func (w *Writer) publishReleased(conn *member.Conn, reason, message string) {
	w.metrics.Spared.WithLabelValues(reason).Inc()
	kind := clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster")
	w.Events.Publish(events.Warning(events.Reference(kind, conn.Cluster()), events.NamespaceReleased, message))
}

// named lists the first names.
func named(names []string) string {
	if len(names) <= contents.Enough {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:contents.Enough], ", ") + " and more"
}
