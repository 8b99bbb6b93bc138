package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/apistore"
)

// selection is which objects a list or watch is for.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) has(object *apistore.Object) bool {
	if object == nil || s.namespace != "" && s.namespace != object.Key.Namespace || !s.labels.Matches(labels.Set(object.Labels)) {
		return false
	}
	if s.fields.Empty() {
		return true
	}
	u, err := object.Decode()
	return err == nil && s.fields.Matches(fieldsOf(u.Object))
}

// fieldsOf gives a field selector the values of an object.
type fieldsOf map[string]any

func (f fieldsOf) Has(field string) bool { return f.Get(field) != "" }
func (f fieldsOf) Get(field string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(f, strings.Split(field, ".")...)
	text, _ := value.(string)
	return text
}

func (m *Member) listOrWatch(w http.ResponseWriter, req *http.Request, r apistore.Served, namespace, name string) error {
	query := req.URL.Query()
	s := selection{namespace: namespace}
	var err error
	if s.labels, err = labels.Parse(query.Get("labelSelector")); err == nil {
		s.fields, err = fields.ParseSelector(query.Get("fieldSelector"))
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if name != "" {
		s.fields = fields.AndSelectors(s.fields, fields.OneTermEqualSelector("metadata.name", name))
	}
	if query.Get("watch") == "true" || query.Get("watch") == "1" {
		return m.answerWatch(w, req, r, s)
	}
	return m.answerList(w, req, r, s)
}

func (m *Member) answerList(w http.ResponseWriter, req *http.Request, r apistore.Served, s selection) error {
	query := req.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	all, version := m.List(r.GroupVersionResource, s.namespace)
	after, rest := query.Get("continue"), ""
	form, items := formOf(req), [][]byte{}
	for _, object := range all {
		place := object.Key.String()
		if place <= after || !s.has(object) {
			continue
		}
		if limit > 0 && len(items) == limit {
			rest = after
			break
		}
		raw, err := form(object.Raw)
		if err != nil {
			return err
		}
		items, after = append(items, raw), place
	}
	apiVersion, kind := r.GroupVersion().String(), r.Kind+"List"
	if strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		apiVersion, kind = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[`, apiVersion, kind, version, rest)
	out.Write(bytes.Join(items, []byte(",")))
	out.WriteString("]}")
	respondRaw(w, http.StatusOK, "application/json", out.Bytes())
	return nil
}

// answerWatch serves a watch until it times out, falls behind, or a fault ends it.
func (m *Member) answerWatch(w http.ResponseWriter, req *http.Request, r apistore.Served, s selection) error {
	query := req.URL.Query()
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = 1800
	}
	ctx, cancel := context.WithTimeout(req.Context(), time.Duration(seconds)*time.Second)
	defer cancel()
	watcher, err := m.Watch(r.GroupVersionResource, query.Get("resourceVersion"), query.Get("sendInitialEvents") == "true", query.Get("allowWatchBookmarks") == "true")
	if err != nil {
		return err
	}
	defer m.Stop(watcher)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	if err := control.Flush(); err != nil {
		return nil //nolint:nilerr // The client has gone.
	}
	writer := eventWriter{selection: s, form: formOf(req), partial: strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata;"), Served: r}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, running := <-watcher.Events:
			if !running || !m.fault.hold(ctx) {
				return nil
			}
			raw := writer.encode(e)
			if raw == nil {
				continue
			}
			if _, err := w.Write(raw); err != nil {
				return nil //nolint:nilerr // The client has gone.
			}
			if len(watcher.Events) == 0 && control.Flush() != nil {
				return nil
			}
		}
	}
}

// eventWriter encodes the events of one watch.
type eventWriter struct {
	selection
	apistore.Served
	form    func([]byte) ([]byte, error)
	partial bool
}

// encode returns an event as the client receives it, or nil if it does not concern the selection.
func (w eventWriter) encode(e apistore.Event) []byte {
	if e.Kind == watch.Bookmark {
		return w.bookmark(e)
	}
	before, now := w.has(e.Before), w.has(e.Object)
	kind := e.Kind
	switch {
	case kind == watch.Deleted && !before, !before && !now:
		return nil
	case kind == watch.Modified && !before:
		kind = watch.Added
	case kind == watch.Modified && !now:
		kind = watch.Deleted
	}
	raw, err := w.form(e.Object.Raw)
	if err != nil {
		return nil
	}
	out := make([]byte, 0, len(raw)+40)
	out = append(out, `{"type":"`+string(kind)+`","object":`...)
	return append(append(out, raw...), "}\n"...)
}

func (w eventWriter) bookmark(e apistore.Event) []byte {
	mark := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: w.GroupVersion().String(), Kind: w.Kind}}
	if w.partial {
		mark.TypeMeta = metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"}
	}
	mark.ResourceVersion = strconv.FormatUint(e.Version, 10)
	if e.InitialEvents {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	raw, _ := json.Marshal(map[string]any{"type": watch.Bookmark, "object": mark}) // of plain fields: cannot fail
	return append(raw, '\n')
}
