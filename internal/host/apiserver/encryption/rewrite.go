package encryption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// recordName is the ConfigMap that records with which key everything is stored.
	recordName = "flagship-encryption"
	// recordKey is the key in it.
	recordKey = "storedWith"
	// pageSize is how many objects are listed at a time.
	pageSize = 500
	// reportEvery is how many objects are rewritten between two reports of progress.
	reportEvery = 500
	// maxErrors bounds the errors that a failure names.
	maxErrors = 3
	// minRetryPause and maxRetryPause bound the pause before objects that could not be rewritten are tried again.
	minRetryPause = 10 * time.Second
	maxRetryPause = 10 * time.Minute
)

// Progress is how far a rewrite is.
type Progress struct {
	// Resource is what is being rewritten, such as works.work.karmada.io.
	Resource string
	// Done and Failed count its objects so far.
	Done, Failed int
	// Finished is true if there are no more of them.
	Finished bool
}

// String is the progress as one line.
func (p Progress) String() string {
	line := fmt.Sprintf("%s: %d stored", p.Resource, p.Done)
	if p.Failed > 0 {
		line += fmt.Sprintf(", %d failed", p.Failed)
	}
	if !p.Finished {
		line += " so far"
	}
	return line
}

// Rewriter has the API server store objects anew, which it does with the first key of its configuration. An object that is
// stored with that key already is not written.
type Rewriter struct {
	kube    kubernetes.Interface
	objects metadata.Interface
}

// NewRewriter makes a Rewriter that works through an API server. It needs the rights to list and patch all Resources, and
// to write the record.
func NewRewriter(config *rest.Config) (*Rewriter, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	return &Rewriter{kube: kube, objects: objects}, nil
}

// Rewrite goes through all objects of all Resources. It continues after an object that cannot be written, and then ends
// with an error.
func (r *Rewriter) Rewrite(ctx context.Context, report func(Progress)) error {
	var failures []error
	failed := 0
	for _, gvr := range Resources() {
		at := Progress{Resource: gvr.GroupResource().String()}
		client := r.objects.Resource(gvr)
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, opts)
		})
		pages.PageSize = pageSize
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			object, ok := item.(*metav1.PartialObjectMetadata)
			if !ok {
				return fmt.Errorf("a list of %s holds a %T", at.Resource, item)
			}
			// A patch without content is written only if the stored value is not as the first key makes it.
			_, err := client.Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			switch {
			case err == nil, apierrors.IsNotFound(err):
				at.Done++
			case ctx.Err() != nil:
				return ctx.Err()
			default:
				at.Failed++
				if len(failures) < maxErrors {
					failures = append(failures, fmt.Errorf("storing %s %s/%s anew: %w", at.Resource, object.Namespace, object.Name, err))
				}
			}
			if (at.Done+at.Failed)%reportEvery == 0 {
				report(at)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing %s: %w", at.Resource, err)
		}
		failed += at.Failed
		at.Finished = true
		report(at)
	}
	if failed > 0 {
		return fmt.Errorf("%d objects are still stored as before: %w", failed, errors.Join(failures...))
	}
	return nil
}

// storedWith is the content of the record when every object is stored by a configuration with this first key. The resources are
// part of it: a version with more of them rewrites.
func storedWith(keys Keys, plain bool) string {
	var resources []string
	for _, resource := range Resources() {
		resources = append(resources, resource.GroupResource().String())
	}
	slices.Sort(resources)
	name := keys[0].Name
	if plain {
		name = "identity"
	}
	return name + ": " + strings.Join(resources, ",")
}

// recorded returns whether everything is stored with the first of the keys.
func (r *Rewriter) recorded(ctx context.Context, keys Keys, plain bool) (bool, error) {
	record, err := r.kube.CoreV1().ConfigMaps(clusterv1alpha1.SystemNamespace).Get(ctx, recordName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading with which key everything is stored: %w", err)
	}
	return record.Data[recordKey] == storedWith(keys, plain), nil
}

// record notes that everything is stored with the first of the keys.
func (r *Rewriter) record(ctx context.Context, keys Keys, plain bool) error {
	maps := r.kube.CoreV1().ConfigMaps(clusterv1alpha1.SystemNamespace)
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: recordName, Namespace: clusterv1alpha1.SystemNamespace},
		Data:       map[string]string{recordKey: storedWith(keys, plain)},
	}
	_, err := maps.Update(ctx, wanted, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, wanted, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("recording with which key everything is stored: %w", err)
	}
	return nil
}

// Run stores everything as the keys say, with retries, until that is done or the context ends. It calls failed for every
// attempt that failed.
func (r *Rewriter) Run(ctx context.Context, keys Keys, plain bool, clk clock.Clock, failed func()) {
	logger := log.FromContext(ctx).WithName("encryption")
	for pause := minRetryPause; ; pause = min(2*pause, maxRetryPause) {
		err := r.ensure(ctx, keys, plain, func(p Progress) {
			if p.Done+p.Failed > 0 {
				logger.Info("Storing objects anew", "resource", p.Resource, "stored", p.Done, "failed", p.Failed, "finished", p.Finished)
			}
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		failed()
		logger.Error(err, "Not every object is stored as the encryption configuration requires, trying again", "after", pause)
		timer := clk.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// ensure rewrites everything unless it is stored, by the record, with the first of the keys, and then records that.
// A server does so after it began to encrypt more than before, or with another key.
func (r *Rewriter) ensure(ctx context.Context, keys Keys, plain bool, report func(Progress)) error {
	done, err := r.recorded(ctx, keys, plain)
	if err != nil || done {
		return err
	}
	if err := r.Rewrite(ctx, report); err != nil {
		return err
	}
	return r.record(ctx, keys, plain)
}
