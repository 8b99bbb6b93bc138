package stored

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

const (
	// hashLabel is the keyed hash of the content of a ControllerRevision.
	hashLabel = "flagship.io/history-hash"
	// attempts bounds how many names are tried that others took.
	attempts = 5
	// page is how many objects are read at once.
	page = 500
	// maxRevision is how many bytes the data of a ControllerRevision may have: etcd refuses requests of more than 1.5 MiB, with all that
	// is in them.
	maxRevision = 1400 << 10
)

// Revision is a stored revision.
type Revision struct {
	history.Record
	name, hash string
}

// Revisions are those of one template, the oldest first.
type Revisions struct {
	Records []Revision
	// Foreign is how many have the label of the template and were not written by the control plane.
	Foreign int
}

// Hash is that of the state of a template, by which Revision.Is finds it.
func (k *Storage) Hash(ctx context.Context, template *unstructured.Unstructured, state history.State) (string, error) {
	key, err := k.key(ctx, false)
	if err != nil {
		return "", err
	}
	return key.Hash(string(template.GetUID()), state)
}

// Is returns whether a revision is that of a state with a hash. It holds without the content of the revision, too.
func (r Revision) Is(hash string) bool { return r.hash == hash }

func namespaceOf(template *unstructured.Unstructured) string {
	return cmp.Or(template.GetNamespace(), ownNamespace)
}

// sealed is the data of a ControllerRevision.
type sealed struct {
	Sealed []byte `json:"sealed"`
}

// Revisions reads the revisions of a template.
func (k *Storage) Revisions(ctx context.Context, template *unstructured.Unstructured) (*Revisions, error) {
	key, err := k.key(ctx, false)
	if err != nil {
		return nil, err
	}
	list, err := k.kube.AppsV1().ControllerRevisions(namespaceOf(template)).List(ctx, metav1.ListOptions{
		LabelSelector: workv1alpha1.HistoryLabel + "=" + string(template.GetUID()),
	})
	if err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	found := &Revisions{}
	for i := range list.Items {
		stored := &list.Items[i]
		r := Revision{name: stored.Name, hash: stored.Labels[hashLabel]}
		var ours bool
		if r.Record, ours = open(key, template.GetUID(), stored); !ours {
			found.Foreign++
			continue
		}
		found.Records = append(found.Records, r)
	}
	slices.SortFunc(found.Records, func(a, b Revision) int { return cmp.Compare(a.Revision, b.Revision) })
	return found, nil
}

// open reads a ControllerRevision. It is false for what the control plane did not write for the owner.
func open(key *history.Key, owner types.UID, stored *appsv1.ControllerRevision) (record history.Record, ours bool) {
	var data sealed
	if err := json.Unmarshal(stored.Data.Raw, &data); err != nil {
		return record, false
	}
	err := key.Open(string(owner), data.Sealed, &record)
	return record, err == nil
}

// Write stores a revision, and deletes an older one of equal content and those above the limit. Stored has what is there before and after.
// Nothing is written if the last revision has the same content. A revision that is too large is stored without its content, so that a
// history has when it came to be, and by whom.
func (k *Storage) Write(ctx context.Context, template *unstructured.Unstructured, record *history.Record, stored *Revisions, limit int) error {
	key, err := k.key(ctx, true)
	if err != nil {
		return err
	}
	hash, err := key.Hash(string(template.GetUID()), record.State)
	if err != nil {
		return err
	}
	if last := len(stored.Records) - 1; last >= 0 && stored.Records[last].Is(hash) {
		return nil
	}
	raw, err := encode(key, template, record)
	if err != nil {
		return err
	}
	if len(raw) > maxRevision {
		k.losses.Count(LostRevision, TooLarge, 1)
		cut := record.Cut(len(raw))
		record = &cut
		if raw, err = encode(key, template, record); err != nil {
			return err
		}
	}
	name, err := k.create(ctx, template, record.Revision, raw, hash)
	if err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(stored.Records), func(r Revision) bool { return r.hash == hash })
	kept = append(kept, Revision{Record: *record, name: name, hash: hash})
	kept = kept[max(0, len(kept)-limit):]
	for _, old := range stored.Records {
		if slices.ContainsFunc(kept, func(r Revision) bool { return r.name == old.name }) {
			continue
		}
		err := k.kube.AppsV1().ControllerRevisions(namespaceOf(template)).Delete(ctx, old.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting revision %s: %w", old.name, err)
		}
	}
	stored.Records = kept
	return nil
}

// encode is the data of the ControllerRevision of a revision.
func encode(key *history.Key, template *unstructured.Unstructured, record *history.Record) ([]byte, error) {
	content, err := key.Seal(string(template.GetUID()), record)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(sealed{content})
	if err != nil {
		return nil, fmt.Errorf("encoding a revision: %w", err)
	}
	return raw, nil
}

// create stores a revision under a free name. The name is empty if the namespace is being deleted.
func (k *Storage) create(ctx context.Context, template *unstructured.Unstructured, number int64, raw []byte, hash string) (name string, err error) {
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{workv1alpha1.HistoryLabel: string(template.GetUID()), hashLabel: hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Name: template.GetName(), UID: template.GetUID(), Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: number,
	}
	for attempt := range attempts {
		object.Name = revisionName(template.GetUID(), number, attempt)
		_, err = k.kube.AppsV1().ControllerRevisions(namespaceOf(template)).Create(ctx, object, metav1.CreateOptions{FieldManager: Manager})
		switch {
		case apierrors.IsAlreadyExists(err):
			continue
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("storing a revision: %w", err)
		}
		return object.Name, nil
	}
	return "", fmt.Errorf("storing a revision: %w", err)
}

// revisionName is one for a template and a revision. Others may have taken the first.
func revisionName(uid types.UID, number int64, attempt int) string {
	digest := sha256.Sum256([]byte(uid))
	name := fmt.Sprintf("%s%s-%d", workv1alpha1.HistoryPrefix, hex.EncodeToString(digest[:5]), number)
	if attempt > 0 {
		name += fmt.Sprintf("-%d", attempt)
	}
	return name
}
