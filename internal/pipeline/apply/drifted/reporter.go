package drifted

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// maxChanges is how many fields of one object are published at a time.
const maxChanges = 5

// Publish is called with a field of an object that others changed, once for each episode. The object is of a kind and name. It must not
// block.
type Publish func(work types.NamespacedName, kind, name string, field fleetv1alpha1.DriftedField)

// Reporter puts the fields that differ into the episodes.
type Reporter struct {
	Episodes *drift.Episodes
	// Publish may be nil.
	Publish Publish
}

// Object is one in a member.
type Object struct {
	Key  drift.Key
	Self ownership.ControlPlane
	// Member reads its metadata.
	Member metadata.ResourceInterface
	// Owners are the owners of its fields if they have been read already.
	Owners []metav1.ManagedFieldsEntry
	// Made has hashes of the values that the member gave fields at the last apply, where they are not the applied ones.
	Made map[string]uint64
	// Yielded are the paths of fields that have the value of the member in what is wanted.
	Yielded []string
}

// Unlike returns the fields at or below paths whose value in live is not the wanted one.
func (r Reporter) Unlike(ctx context.Context, o Object, wanted, live *unstructured.Unstructured, paths []string) []string {
	return r.compare(ctx, o, wanted, live).unlike(paths)
}

// All returns the paths of all fields of wanted that live does not have with that value.
func (r Reporter) All(ctx context.Context, o Object, wanted, live *unstructured.Unstructured) []string {
	c := r.compare(ctx, o, wanted, live)
	c.lost = ssa.Lost(o.Self, wanted, live)
	return c.all()
}

// PutBack returns what records that fields were put back. Who changed them is read before: afterwards they are ours.
func (r Reporter) PutBack(ctx context.Context, o Object, wanted, live *unstructured.Unstructured, paths []string) (report func()) {
	if paths = r.Unlike(ctx, o, wanted, live, paths); len(paths) == 0 {
		return func() {} // only the owner of fields was another one, or there is no drift
	}
	fields := fieldsOf(ctx, o.Self, o.Member, wanted, live, paths)
	for i := range fields {
		fields[i].Outcome = fleetv1alpha1.DriftPutBack
	}
	return func() { r.publish(o.Key, fields, r.Episodes.PutBack(o.Key, fields)) }
}

// CreatedAgain records that an object which others deleted was created again.
func (r Reporter) CreatedAgain(o Object) {
	if whole, isNew := r.Episodes.CreatedAgain(o.Key); isNew {
		r.publish(o.Key, []fleetv1alpha1.DriftedField{whole}, []string{whole.Path})
	}
}

// Stands records all fields of an object that differ and are left so, none if there are no paths, and returns since when. Who changed them
// is read when the fields are other ones than before.
func (r Reporter) Stands(ctx context.Context, o Object, wanted, live *unstructured.Unstructured, paths []string, outcome fleetv1alpha1.DriftOutcome) time.Time {
	if len(paths) == 0 {
		r.Episodes.Stands(o.Key, nil)
		return time.Time{}
	}
	before, since := r.Episodes.Standing(o.Key)
	if areKnown(before, wanted, live, paths, outcome) {
		return since
	}
	fields := fieldsOf(ctx, o.Self, o.Member, wanted, live, paths)
	for i := range fields {
		fields[i].Outcome = outcome
	}
	r.publish(o.Key, fields, r.Episodes.Stands(o.Key, fields))
	_, since = r.Episodes.Standing(o.Key)
	return since
}

// publish publishes those of fields that are news.
func (r Reporter) publish(key drift.Key, fields []fleetv1alpha1.DriftedField, news []string) {
	if r.Publish == nil {
		return
	}
	news = news[:min(len(news), maxChanges)]
	for _, field := range fields {
		if slices.Contains(news, field.Path) {
			r.Publish(key.Work, key.Object.Kind, key.Object.Name, field)
		}
	}
}

// Acknowledged returns whether differences that were found at a time are acknowledged until a time in RFC 3339, which has no fractions.
func Acknowledged(until string, since time.Time) bool {
	at, err := time.Parse(time.RFC3339, until)
	return err == nil && !at.Before(since.Truncate(time.Second))
}
