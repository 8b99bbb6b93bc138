package memberevents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// RecordPeriod is how often at most the Warnings of a member are recorded: a record is a write to the control plane.
const RecordPeriod = 10 * time.Second

// Record returns Deps.Report of a process that does not publish: it writes the record of a cluster, with a client of package hubclient. Its namespace is
// the execution namespace, so that an agent that may write there may report, and about Works of this namespace only.
func Record(c client.Client) func(ctx context.Context, cluster string, warnings []Warning) error {
	return func(ctx context.Context, cluster string, warnings []Warning) error {
		key := client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.EventsRecordName}
		existing, err := hubclient.GetWork(ctx, c, key)
		if err != nil || existing == nil && len(warnings) == 0 {
			return err
		}
		work := workv1alpha1.NewRecord(key, existing)
		work.AddLabels(map[string]string{workv1alpha1.EventsRecordLabel: "true"})
		work.Spec.SuspendDispatching = new(true)
		if work.Spec.Workload.Manifests, err = encode(warnings); err != nil {
			return err
		}
		if existing == nil {
			err = c.Create(ctx, work)
		} else if !workv1alpha1.SameManifests(existing.Spec.Workload.Manifests, work.Spec.Workload.Manifests) {
			err = c.Update(ctx, work)
		}
		if err != nil {
			return fmt.Errorf("writing the record of events: %w", err)
		}
		return nil
	}
}

// encode makes of Warnings the manifests of a record.
func encode(warnings []Warning) ([]workv1alpha1.Manifest, error) {
	manifests := make([]workv1alpha1.Manifest, 0, len(warnings))
	for _, w := range warnings {
		raw, err := json.Marshal(&corev1.Event{
			TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta:     metav1.ObjectMeta{Name: w.hash()},
			InvolvedObject: corev1.ObjectReference{Kind: w.Kind, Name: w.Object, FieldPath: w.FieldPath},
			Related:        &corev1.ObjectReference{Kind: workv1alpha1.KindWork, Name: w.Work},
			Reason:         w.Reason, Message: w.Message, Type: corev1.EventTypeWarning, LastTimestamp: metav1.NewTime(w.Last),
		})
		if err != nil {
			return nil, fmt.Errorf("encoding an event: %w", err)
		}
		manifests = append(manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return manifests, nil
}

// decode reads a record. What is no Event about a Work is left out.
func decode(work *workv1alpha1.Work) []Warning {
	var warnings []Warning
	for _, manifest := range work.Spec.Workload.Manifests {
		var e corev1.Event
		if json.Unmarshal(manifest.Raw, &e) != nil || e.Related == nil || e.Type != corev1.EventTypeWarning {
			continue
		}
		warnings = append(warnings, Warning{Last: e.LastTimestamp.Time, Subject: Subject{
			Work: e.Related.Name, Kind: e.InvolvedObject.Kind, Object: e.InvolvedObject.Name, FieldPath: e.InvolvedObject.FieldPath,
			Reason: e.Reason, Message: e.Message,
		}})
	}
	return warnings
}
