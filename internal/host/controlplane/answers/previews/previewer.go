package previews

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
	"github.com/flagship-k8s/flagship/internal/host/preview/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// previewPatience is how long one answer may take.
	previewPatience = 30 * time.Second
	// maxDryRuns is how many objects of one answer are applied in members, and dryRunsAtOnce how many at the same time.
	maxDryRuns, dryRunsAtOnce = 100, 8
	// dryRunPatience is how long one of them may take: an admission webhook of the member may take 10 s by default.
	dryRunPatience = 12 * time.Second
	// shortSeconds is when a client sends a request again that was refused because memory is short.
	shortSeconds = 10
)

// Previewer answers Previews. All exported fields but Short are required.
type Previewer struct {
	// Config is that of a preview of this control plane, but for its Evict.
	Config preview.Config
	// Evict and Brake are functions because both may change meanwhile.
	Evict func() evict.Config
	Brake func() brake.Config
	// Author is a client of the control plane for an author, and Members one of a member: with the rights of the author. They are
	// functions since each author has clients.
	Author  func(author user.Info) (dynamic.Interface, error)
	Members func(cluster string, author user.Info) (dynamic.Interface, error)
	// Manager is the field manager with which objects are applied in members.
	Manager string
	Mapper  meta.RESTMapper
	// Synced is closed when the caches are filled.
	Synced <-chan struct{}
	// Short returns whether the process is short of memory: no preview is made then, which copies what it changes. Optional.
	Short func() bool
}

// AsAuthor returns clients of the control plane that send each request as an author.
func AsAuthor(as func(user.Info) *rest.Config) func(author user.Info) (dynamic.Interface, error) {
	return func(author user.Info) (dynamic.Interface, error) {
		client, err := dynamic.NewForConfig(as(author))
		if err != nil {
			return nil, fmt.Errorf("making a client for %s: %w", author.GetName(), err)
		}
		return client, nil
	}
}

// Preview answers one question of an author, who may get what may returns.
func (p *Previewer) Preview(ctx context.Context, spec fleetv1alpha1.PreviewSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.PreviewStatus, error) {
	var status fleetv1alpha1.PreviewStatus
	select {
	case <-p.Synced:
	default:
		return status, apierrors.NewServiceUnavailable("the control plane is starting")
	}
	if p.Short != nil && p.Short() {
		return status, apierrors.NewTooManyRequests("the control plane is short of memory, so that it makes no previews: send the request again later", shortSeconds)
	}
	ctx, cancel := context.WithTimeout(ctx, previewPatience)
	defer cancel()
	if err := p.answer(ctx, &spec, author, may, &status); err != nil {
		if errors.Is(cmp.Or(ctx.Err(), err), context.DeadlineExceeded) {
			err = apierrors.NewTimeoutError(fmt.Sprintf("a preview may take %s: preview fewer objects at once, or try again when the control plane has less to do",
				previewPatience), 0)
		}
		return fleetv1alpha1.PreviewStatus{}, err
	}
	return status, nil
}

// answer completes a status.
func (p *Previewer) answer(ctx context.Context, spec *fleetv1alpha1.PreviewSpec, author user.Info, may func(explain.Right) bool, status *fleetv1alpha1.PreviewStatus) error {
	client, err := p.Author(author)
	if err != nil {
		return err
	}
	config := p.Config
	config.Evict = p.Evict()
	run, err := preview.New(ctx, config)
	if err != nil {
		return err
	}
	run.Mark()
	if err := run.Change(ctx, spec, dryRun{client, p.Mapper}, status); err != nil {
		return err
	}
	copies, err := run.Answer(ctx, p.Brake(), may, status)
	if err != nil {
		return err
	}
	if spec.Members {
		p.inMembers(ctx, run, copies, author, status)
	}
	summary.Complete(status)
	return nil
}

// errSlow is the error about a dry run that takes longer than dryRunPatience.
var errSlow = fmt.Errorf("no answer within %s", dryRunPatience)

// inMember is the result of one dry run.
type inMember struct {
	preview.Copy
	fields  []fleetv1alpha1.FieldEdit
	message string
}

// inMembers applies each object in its member in a dry run, and divides the entries of those that differ.
func (p *Previewer) inMembers(ctx context.Context, run *preview.Run, copies []preview.Copy, author user.Info, status *fleetv1alpha1.PreviewStatus) {
	results := dryRuns(ctx, copies, func(c preview.Copy) ([]fleetv1alpha1.FieldEdit, error) { return p.tryMember(ctx, run, c, author) })
	entries := status.Copies
	status.Copies = nil
	for i, entry := range entries {
		first := len(status.Copies)
		for _, result := range results {
			if result.Entry != i {
				continue
			}
			at := slices.IndexFunc(status.Copies[first:], func(c fleetv1alpha1.PreviewCopy) bool {
				return c.Message == result.message && slices.Equal(c.Member, result.fields)
			})
			if at >= 0 {
				status.Copies[first+at].Clusters = append(status.Copies[first+at].Clusters, result.Cluster)
				continue
			}
			part := *entry.DeepCopy()
			part.Clusters, part.Member, part.Message = []string{result.Cluster}, result.fields, result.message
			status.Copies = append(status.Copies, part)
		}
		if len(status.Copies) == first { // nothing is applied
			status.Copies = append(status.Copies, entry)
		}
	}
}

// dryRuns tries each copy in its member. After one that takes too long, no other is tried in that member: they would take the time of the
// other members.
func dryRuns(ctx context.Context, copies []preview.Copy, try func(preview.Copy) ([]fleetv1alpha1.FieldEdit, error)) []inMember {
	results := make([]inMember, len(copies))
	var slow sync.Map      // the clusters in which one took too long
	var bytes atomic.Int64 // of the fields of all
	var group errgroup.Group
	group.SetLimit(dryRunsAtOnce)
	for i, c := range copies {
		results[i].Copy = c
		if i >= maxDryRuns {
			results[i].message = fmt.Sprintf("not applied in a dry run: an answer has %d of them", maxDryRuns)
			continue
		}
		group.Go(func() error {
			err := errSlow
			if _, late := slow.Load(c.Cluster); !late {
				err = controlloop.CatchPanic(func() (err error) {
					results[i].fields, err = try(c)
					return err
				})
			}
			if errors.Is(err, errSlow) {
				slow.Store(c.Cluster, nil)
			}
			if err != nil {
				results[i].message = reasonOf(ctx, c.Cluster, err)
			}
			if bytes.Add(int64(preview.SizeOf(results[i].fields))) > preview.MaxFieldBytes {
				results[i].fields, results[i].message = nil, fmt.Sprintf("the fields that would change are left out: those of an answer have %d bytes", preview.MaxFieldBytes)
			}
			return nil
		})
	}
	_ = group.Wait() // each copy has its result
	return results
}

// reasonOf is why there is no result of a dry run in an answer with this context. The author sees what the member answered.
func reasonOf(ctx context.Context, cluster string, err error) string {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Reason != metav1.StatusReasonUnknown {
		return fmt.Sprintf("%s refuses it: %s", cluster, answer.Status().Message)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("not applied in a dry run: the answer has taken %s", previewPatience)
	case errors.Is(err, errSlow):
		return fmt.Sprintf("%s does not answer within %s", cluster, dryRunPatience)
	}
	return fmt.Sprintf("%s does not answer", cluster)
}

// tryMember applies one object in its member in a dry run, and returns the fields that would change.
func (p *Previewer) tryMember(ctx context.Context, run *preview.Run, c preview.Copy, author user.Info) (_ []fleetv1alpha1.FieldEdit, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dryRunPatience, errSlow)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errSlow) {
			err = errSlow
		}
	}()
	resource, namespaced, ok := run.Templates.Mapping(c.Manifest.GroupVersionKind())
	if !ok {
		return nil, apierrors.NewBadRequest("the control plane serves no resource of the kind " + c.Manifest.GetKind())
	}
	client, err := p.Members(c.Cluster, author)
	if err != nil {
		return nil, err
	}
	var objects dynamic.ResourceInterface = client.Resource(resource)
	if namespaced {
		objects = client.Resource(resource).Namespace(c.Manifest.GetNamespace())
	}
	before, err := objects.Get(ctx, c.Manifest.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		before = &unstructured.Unstructured{Object: map[string]any{}}
	} else if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	raw, err := c.Manifest.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	force := true
	after, err := objects.Patch(ctx, c.Manifest.GetName(), types.ApplyPatchType, raw,
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: p.Manager, Force: &force})
	if err != nil {
		return nil, fmt.Errorf("applying the object: %w", err)
	}
	return fields.Edits(users(before), users(after)), nil
}

// users is an object of a member without the labels and annotations of the control plane.
func users(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	for _, field := range []string{"labels", "annotations"} {
		all, found, err := unstructured.NestedStringMap(obj.Object, "metadata", field)
		if !found || err != nil {
			continue
		}
		for key := range all {
			if workv1alpha1.IsOwnershipKey(key) {
				unstructured.RemoveNestedField(obj.Object, "metadata", field, key)
				delete(all, key)
			}
		}
		if len(all) == 0 {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
	}
	return obj
}
