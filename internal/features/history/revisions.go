package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

const (
	// ownNamespace holds the key, and the revisions of cluster-scoped templates. Only administrators have rights there.
	ownNamespace = "flagship-system"
	keySecret    = "flagship-history-key"
	keyField     = "key"
	// hashLabel is the keyed hash of the content of a ControllerRevision.
	hashLabel = "flagship.io/history-hash"
	// attempts bounds how many names are tried that others took.
	attempts = 5
)

// keyring has the key of revisions. It is read once, and made if there is none.
type keyring struct {
	kube kubernetes.Interface
	mu   sync.Mutex
	key  *history.Key
}

func (r *keyring) get(ctx context.Context, create bool) (*history.Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != nil {
		return r.key, nil
	}
	secrets := r.kube.CoreV1().Secrets(ownNamespace)
	secret, err := secrets.Get(ctx, keySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if !create {
			return &history.Key{}, nil // nothing was sealed yet
		}
		fresh := make([]byte, history.KeyBytes)
		if _, err := rand.Read(fresh); err != nil {
			return nil, fmt.Errorf("making the key of revisions: %w", err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}}
		if _, err := r.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating the namespace %s: %w", ownNamespace, err)
		}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keySecret}, Data: map[string][]byte{keyField: fresh}}
		secret, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("storing the key of revisions: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of revisions: %w", err)
	}
	if len(secret.Data[keyField]) != history.KeyBytes {
		return nil, fmt.Errorf("the Secret %s/%s has no key of %d bytes: delete it, and with it all recorded revisions", ownNamespace, keySecret, history.KeyBytes)
	}
	r.key = &history.Key{}
	copy(r.key[:], secret.Data[keyField])
	return r.key, nil
}

// revision is a stored revision.
type revision struct {
	history.Record
	name, hash string
}

// revisions are those of one template, the oldest first.
type revisions struct {
	records []revision
	// foreign is how many have the label of the template and cannot be opened.
	foreign int
}

func namespaceOf(template *unstructured.Unstructured) string {
	return cmp.Or(template.GetNamespace(), ownNamespace)
}

// sealed is the data of a ControllerRevision.
type sealed struct {
	Sealed []byte `json:"sealed"`
}

// stored reads the revisions of a template.
func (k *Keeper) stored(ctx context.Context, template *unstructured.Unstructured) (*revisions, error) {
	key, err := k.key.get(ctx, false)
	if err != nil {
		return nil, err
	}
	list, err := k.Kube.AppsV1().ControllerRevisions(namespaceOf(template)).List(ctx, metav1.ListOptions{
		LabelSelector: workv1alpha1.HistoryLabel + "=" + string(template.GetUID()),
	})
	if err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}
	found := &revisions{}
	for i := range list.Items {
		stored := &list.Items[i]
		r := revision{name: stored.Name, hash: stored.Labels[hashLabel]}
		var data sealed
		if err := json.Unmarshal(stored.Data.Raw, &data); err != nil || key.Open(string(template.GetUID()), data.Sealed, &r.Record) != nil {
			found.foreign++
			continue
		}
		found.records = append(found.records, r)
	}
	slices.SortFunc(found.records, func(a, b revision) int { return cmp.Compare(a.Revision, b.Revision) })
	return found, nil
}

// write stores a revision, and deletes an older one of equal content and those above the limit. Stored has what is there before and after.
func (k *Keeper) write(ctx context.Context, template *unstructured.Unstructured, record *history.Record, stored *revisions, limit int) error {
	key, err := k.key.get(ctx, true)
	if err != nil {
		return err
	}
	hash, err := key.Hash(string(template.GetUID()), record.State)
	if err != nil {
		return err
	}
	name, err := k.create(ctx, key, template, record, hash)
	if err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(stored.records), func(r revision) bool { return r.hash == hash })
	kept = append(kept, revision{Record: *record, name: name, hash: hash})
	kept = kept[max(0, len(kept)-limit):]
	for _, old := range stored.records {
		if slices.ContainsFunc(kept, func(r revision) bool { return r.name == old.name }) {
			continue
		}
		err := k.Kube.AppsV1().ControllerRevisions(namespaceOf(template)).Delete(ctx, old.name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting revision %s: %w", old.name, err)
		}
	}
	stored.records = kept
	return nil
}

// create stores a revision under a free name. The name is empty if the storage refuses it, as it does what is too large.
func (k *Keeper) create(ctx context.Context, key *history.Key, template *unstructured.Unstructured, record *history.Record, hash string) (string, error) {
	content, err := key.Seal(string(template.GetUID()), record)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(sealed{content})
	if err != nil {
		return "", fmt.Errorf("encoding a revision: %w", err)
	}
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{workv1alpha1.HistoryLabel: string(template.GetUID()), hashLabel: hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Name: template.GetName(), UID: template.GetUID(), Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: raw}, Revision: record.Revision,
	}
	for attempt := range attempts {
		object.Name = revisionName(template.GetUID(), record.Revision, attempt)
		_, err = k.Kube.AppsV1().ControllerRevisions(namespaceOf(template)).Create(ctx, object, metav1.CreateOptions{FieldManager: ourManager})
		switch {
		case apierrors.IsAlreadyExists(err):
			continue
		case apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
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
