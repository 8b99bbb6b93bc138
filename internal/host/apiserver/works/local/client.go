package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client that writes objects of the kinds by calls of their storage, and does everything else as requests does. A write
// is a request, too, if it has options that only the handlers of requests support, if the audit policy records it, if it is part of
// a trace, and if the object has managed fields. Nothing is written after stopped is closed.
func (s *Storage) Client(requests client.Client, stopped <-chan struct{}) client.Client {
	return &localClient{Client: requests, local: s, stopped: stopped, written: func(context.Context, client.Object) error { return nil }}
}

type localClient struct {
	client.Client
	local   *Storage
	stopped <-chan struct{}
	// written is called with what a write returned.
	written func(context.Context, client.Object) error
}

// WithRequests returns the client with other requests. Written is called after each write that is no request, with the object that is stored then, or
// that was deleted.
func (c *localClient) WithRequests(requests client.Client, written func(context.Context, client.Object) error) client.Client {
	over := *c
	over.Client, over.written = requests, written
	return &over
}

// begin returns the write of an object, false if it has to be a request.
func (c *localClient) begin(ctx context.Context, verb, subresource string, obj client.Object) (write, bool) {
	kind, ok := c.local.kind(obj)
	if !ok {
		return write{}, false
	}
	if _, known := kind.Subresources[subresource]; subresource != "" && !known {
		return write{}, false
	}
	select {
	case <-c.stopped:
		return write{}, false
	default:
	}
	w := write{Kind: kind, rules: c.local.rules, verb: verb, namespace: obj.GetNamespace(), name: obj.GetName(), subresource: subresource}
	return w, w.admissible(ctx)
}

// copyOf returns a copy of an object as storage takes it.
func copyOf(obj client.Object) client.Object {
	copied := obj.DeepCopyObject().(client.Object)
	copied.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return copied
}

// finish has obj be what storage returned. It returns whether the write was made here, and not left to a request.
func (c *localClient) finish(ctx context.Context, obj client.Object, out runtime.Object, err error) (bool, error) {
	switch {
	case errors.Is(err, errHasManagers):
		return false, nil
	case err != nil:
		return true, err
	}
	if stored, ok := out.(client.Object); ok && reflect.TypeOf(stored) == reflect.TypeOf(obj) {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(stored).Elem())
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as after a request
		return true, c.written(ctx, obj)
	}
	return true, nil
}

// Create implements client.Writer.
func (c *localClient) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(options)
	if w, ok := c.begin(ctx, "create", "", obj); ok && len(o.DryRun) == 0 && o.Raw == nil && obj.GetName() != "" {
		_, err := c.post(ctx, w, obj)
		return err
	}
	return c.Client.Create(ctx, obj, options...)
}

// post stores a new object.
func (c *localClient) post(ctx context.Context, w write, obj client.Object) (done bool, err error) {
	out, err := w.create(ctx, copyOf(obj))
	return c.finish(ctx, obj, out, err)
}

// put stores an object instead of the version that it names.
func (c *localClient) put(ctx context.Context, w write, obj client.Object) (done bool, err error) {
	out, err := w.change(ctx, func(context.Context, runtime.Object, runtime.Object) (runtime.Object, error) { return copyOf(obj), nil })
	return c.finish(ctx, obj, out, err)
}

// Update implements client.Writer.
func (c *localClient) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	o := (&client.UpdateOptions{}).ApplyOptions(options)
	if len(o.DryRun) == 0 && o.Raw == nil {
		if done, err := c.replace(ctx, "", obj); done {
			return err
		}
	}
	return c.Client.Update(ctx, obj, options...)
}

// replace stores an object instead of the version that it names.
func (c *localClient) replace(ctx context.Context, subresource string, obj client.Object) (bool, error) {
	w, ok := c.begin(ctx, "update", subresource, obj)
	if !ok {
		return false, nil
	}
	return c.put(ctx, w, obj)
}

// Patch implements client.Writer.
func (c *localClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	o := (&client.PatchOptions{}).ApplyOptions(options)
	if len(o.DryRun) == 0 && o.Raw == nil && o.Force == nil {
		if done, err := c.patch(ctx, "", obj, patch); done {
			return err
		}
	}
	return c.Client.Patch(ctx, obj, patch, options...)
}

// Changer is implemented by a patch that can change an object itself, for which the object need not be encoded and decoded.
type Changer interface{ Change(stored client.Object) }

// patch applies a JSON patch or a merge patch.
func (c *localClient) patch(ctx context.Context, subresource string, obj client.Object, patch client.Patch) (bool, error) {
	if kind := patch.Type(); kind != types.MergePatchType && kind != types.JSONPatchType {
		return false, nil
	}
	w, ok := c.begin(ctx, "patch", subresource, obj)
	if !ok {
		return false, nil
	}
	if changer, ok := patch.(Changer); ok {
		out, err := w.change(ctx, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			next := old.DeepCopyObject().(client.Object)
			changer.Change(next)
			return next, nil
		})
		return c.finish(ctx, obj, out, err)
	}
	data, err := patch.Data(obj)
	if err != nil {
		return true, fmt.Errorf("encoding a patch: %w", err)
	}
	out, err := w.change(ctx, w.patched(patch.Type(), data))
	return c.finish(ctx, obj, out, err)
}

// patched applies a patch to the stored object.
func (w write) patched(kind types.PatchType, data []byte) rest.TransformFunc {
	return func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		before, err := json.Marshal(old)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %q: %w", w.resource(), w.name, err)
		}
		after, err := apply(kind, before, data)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(422, w.verb, w.resource(), w.name, err.Error(), 0, false)
		}
		next := w.NewFunc()
		if err := json.Unmarshal(after, next); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return next, nil
	}
}

func apply(kind types.PatchType, before, data []byte) ([]byte, error) {
	if kind == types.MergePatchType {
		return jsonpatch.MergePatch(before, data)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	return patch.Apply(before)
}

// Replace stores what an object was changed to: as it is, if the stored object is still what it was before, or only its status is another,
// which such a write keeps; and else the difference, as a merge patch; with locked that is a conflict. It returns whether the object changed,
// and false for done if a request has to do it.
func (c *localClient) Replace(ctx context.Context, subresource string, before, after client.Object, locked bool) (changed, done bool, err error) {
	w, ok := c.begin(ctx, "patch", subresource, after)
	if !ok {
		return false, false, nil
	}
	version := before.GetResourceVersion()
	out, err := w.change(ctx, func(ctx context.Context, object, old runtime.Object) (runtime.Object, error) {
		version = old.(client.Object).GetResourceVersion()
		switch {
		case version == before.GetResourceVersion():
			return copyOf(after), nil
		case locked:
			return nil, apierrors.NewConflict(w.resource(), w.name, errors.New("the object has been modified"))
		case subresource == "" && sameBesidesStatus(before, old.(client.Object)):
			next := copyOf(after)
			next.SetResourceVersion(version)
			return next, nil
		}
		data, err := client.MergeFrom(before).Data(after)
		if err != nil {
			return nil, fmt.Errorf("comparing two states of %s %q: %w", w.resource(), w.name, err)
		}
		return w.patched(types.MergePatchType, data)(ctx, object, old)
	})
	done, err = c.finish(ctx, after, out, err)
	return done && err == nil && after.GetResourceVersion() != version, done, err
}

// CreateWithStatus stores a new object with its status. It returns false for done if that cannot be one write.
func (c *localClient) CreateWithStatus(ctx context.Context, obj client.Object) (done bool, err error) {
	w, ok := c.begin(ctx, "create", "", obj)
	if w.withStatus = true; !ok || w.WithStatus == nil || obj.GetName() == "" {
		return false, nil
	}
	return c.post(ctx, w, obj)
}

// ReplaceWithStatus stores an object and its status instead of the version that it names, and is a conflict if another version is stored. It
// returns false for done if that cannot be one write.
func (c *localClient) ReplaceWithStatus(ctx context.Context, obj client.Object) (done bool, err error) {
	w, ok := c.begin(ctx, "update", "", obj)
	if w.withStatus = true; !ok || w.WithStatus == nil {
		return false, nil
	}
	return c.put(ctx, w, obj)
}

// sameBesidesStatus returns whether two states of an object have the same metadata and spec. The version is that of the storage, and not
// compared.
func sameBesidesStatus(a, b client.Object) bool {
	before, now := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	if before.Type() != now.Type() {
		return false
	}
	meta, ok := before.FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
	meta.ResourceVersion = b.GetResourceVersion()
	return ok && apiequality.Semantic.DeepEqual(meta, now.FieldByName("ObjectMeta").Interface()) &&
		apiequality.Semantic.DeepEqual(before.FieldByName("Spec").Interface(), now.FieldByName("Spec").Interface())
}

// Delete implements client.Writer.
func (c *localClient) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	if w, ok := c.begin(ctx, "delete", "", obj); ok && len(o.DryRun) == 0 && o.Raw == nil {
		asked := o.AsDeleteOptions()
		asked.Kind, asked.APIVersion = "DeleteOptions", "meta.k8s.io/v1"
		out, err := w.remove(ctx, asked)
		_, err = c.finish(ctx, copyOf(obj), out, err) // clients do not have the answer of a deletion in the object
		return err
	}
	return c.Client.Delete(ctx, obj, options...)
}

// Status implements client.Client.
func (c *localClient) Status() client.SubResourceWriter {
	return &localSubresource{c.Client.SubResource("status"), c, "status"}
}

// SubResource implements client.Client.
func (c *localClient) SubResource(name string) client.SubResourceClient {
	return &localSubresource{c.Client.SubResource(name), c, name}
}

type localSubresource struct {
	client.SubResourceClient
	client *localClient
	name   string
}

// Update implements client.SubResourceWriter.
func (s *localSubresource) Update(ctx context.Context, obj client.Object, options ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(options)
	if len(o.DryRun) == 0 && o.Raw == nil && o.SubResourceBody == nil {
		if done, err := s.client.replace(ctx, s.name, obj); done {
			return err
		}
	}
	return s.SubResourceClient.Update(ctx, obj, options...)
}

// Patch implements client.SubResourceWriter.
func (s *localSubresource) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(options)
	if len(o.DryRun) == 0 && o.Raw == nil && o.Force == nil && o.SubResourceBody == nil {
		if done, err := s.client.patch(ctx, s.name, obj, patch); done {
			return err
		}
	}
	return s.SubResourceClient.Patch(ctx, obj, patch, options...)
}
