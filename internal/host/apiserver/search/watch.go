package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/budget"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

const (
	// watchLife is how long a watch lasts if the client names no time.
	watchLife = 30 * time.Minute
	// readPatience is how long the client may take to read an event: what waits for it holds a share of the budget.
	readPatience = time.Minute
	// smallEvent is up to how many bytes an event of a member takes no share.
	smallEvent = 64 << 10
)

// delta is one event of a cluster.
type delta struct {
	kind    apiwatch.EventType
	object  map[string]any
	cluster string
	// at is the version of the cluster after the event; empty while its objects are listed.
	at string
	// err ends the watch.
	err error
}

// watch answers with the events of all clusters. A cluster that does not answer is tried again, from its last version on; one
// without a version is listed, as events, and then watched. What the client has of a cluster that is not read any more can only be
// removed by a new list: the watch ends, as expired.
func (c *call) watch(ctx context.Context) error {
	query := c.request.URL.Query()
	if query.Get("sendInitialEvents") == "true" {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "objects of several clusters are listed, and then watched"),
		})
	}
	from, err := merge.ParseVersion(query.Get("resourceVersion"))
	if err != nil {
		return expired(err.Error())
	}
	changed := c.registries().Changed()
	if err := c.refresh(ctx); err != nil {
		return err
	}
	for _, cluster := range from.Clusters() {
		if _, still := c.clusters[cluster]; !still {
			return expired(fmt.Sprintf("cluster %s is not read any more", cluster))
		}
		if from[cluster] == "" {
			return expired(fmt.Sprintf("the objects of cluster %s were not sent completely", cluster))
		}
	}
	now, failed := c.versions(ctx)
	if err := c.missing(ctx, c.names(), failed); err != nil {
		return err
	}
	for _, cluster := range now.Clusters() {
		if merge.Earlier(now[cluster], from[cluster]) {
			return expired(fmt.Sprintf("cluster %s is at an earlier version: it was restored from a backup", cluster))
		}
	}
	c.share.End()
	open := c.openWatches.Of(budget.Tenant(c.caller.GetName()))
	defer open.End()
	w := &watcher{call: c, at: maps.Clone(from), open: open, events: make(chan delta), bookmarks: query.Get("allowWatchBookmarks") == "true"}
	if w.at == nil {
		w.at = merge.Version{}
	}
	life := watchLife
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil && seconds > 0 {
		life = time.Duration(seconds) * time.Second
	}
	return w.run(ctx, life, changed)
}

// refresh reads again which clusters have the resource.
func (c *call) refresh(ctx context.Context) (err error) {
	c.clusters, err = c.selected(ctx, c.registries())
	if err != nil {
		return starting(err)
	}
	return nil
}

// watcher writes the events of one watch.
type watcher struct {
	*call
	// at is what the client has.
	at merge.Version
	// open is what it has of the budget of open watches.
	open      *budget.Following
	events    chan delta
	bookmarks bool
	following sync.WaitGroup
}

// run writes events until the time is over, the client is gone, or it has to list again. An error is one before the answer began.
func (w *watcher) run(ctx context.Context, life time.Duration, changed <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, life)
	defer w.following.Wait()
	defer cancel()
	followed := map[string][]string{}
	if err := w.follow(ctx, followed); err != nil {
		return err
	}
	w.writer.Header().Set("Content-Type", "application/json")
	w.writer.WriteHeader(http.StatusOK)
	w.flush()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case d := <-w.events:
			err = w.deliver(d)
		case <-changed:
			changed = w.registries().Changed()
			if err = w.refresh(ctx); err == nil {
				err = w.follow(ctx, followed)
			}
		}
		if err != nil {
			w.end(err)
			return nil
		}
	}
}

// follow begins to follow the clusters that are new. It returns an error if one is not read any more, or if too many watches are open.
func (w *watcher) follow(ctx context.Context, followed map[string][]string) error {
	for cluster, namespaces := range followed {
		if now, still := w.clusters[cluster]; !still || !slices.Equal(now, namespaces) || (now == nil) != (namespaces == nil) {
			return expired(fmt.Sprintf("cluster %s is not read any more, or other namespaces of it", cluster))
		}
	}
	if err := w.open.Add(len(w.clusters) - len(followed)); err != nil { // all that are followed are still there
		return err
	}
	for cluster, namespaces := range w.clusters {
		if _, known := followed[cluster]; known {
			continue
		}
		followed[cluster] = namespaces
		own := *w.call
		own.clusters = map[string][]string{cluster: namespaces}
		f := &follower{call: &own, cluster: cluster, at: w.at[cluster], events: w.events}
		w.following.Go(func() { f.run(ctx) })
	}
	return nil
}

// deliver writes one event.
func (w *watcher) deliver(d delta) error {
	if d.err != nil {
		return d.err
	}
	w.at[d.cluster] = d.at
	if d.object == nil || d.kind == apiwatch.Bookmark && !w.bookmarks {
		return nil
	}
	at := w.at.String()
	switch {
	case d.kind == apiwatch.Bookmark:
		metadata, _ := d.object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
		}
		metadata["resourceVersion"] = at
		d.object["metadata"] = metadata
	case merge.IsTable(d.object):
		rows, _ := d.object["rows"].([]any)
		for _, row := range rows {
			if object := merge.RowObject(row); object != nil {
				w.own(object, d.cluster, at)
			}
		}
		d.object["metadata"] = map[string]any{"resourceVersion": at}
	default:
		w.own(d.object, d.cluster, at)
	}
	return w.write(d.kind, d.object)
}

func (w *watcher) write(kind apiwatch.EventType, object any) error {
	defer w.writeUntil(readPatience)()
	if err := json.NewEncoder(w.writer).Encode(map[string]any{"type": kind, "object": object}); err != nil {
		return err
	}
	w.flush()
	return nil
}

func (w *watcher) flush() {
	if flusher, ok := w.writer.(http.Flusher); ok {
		flusher.Flush()
	}
}

// end reports to the client why the watch ends.
func (w *watcher) end(err error) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		object := status.Status()
		object.APIVersion, object.Kind = "v1", "Status"
		_ = w.write(apiwatch.Error, object) // the client is gone if this fails
	}
}

// follower follows one cluster.
type follower struct {
	*call
	cluster string
	// at is the version that the client has, empty for none.
	at     string
	events chan<- delta
	table  merge.Table
	// columns are those of the latest Table of the cluster: further events have none.
	columns []any
}

// run follows the cluster until the context ends or the client has to list again. Each failure is followed by a pause.
func (f *follower) run(ctx context.Context) {
	retries := backoff.Connection(f.pause)
	for ctx.Err() == nil {
		began, err := f.once(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			_ = f.send(ctx, delta{err: expired(fmt.Sprintf("cluster %s: %v", f.cluster, err))})
			return
		}
		if began {
			retries = backoff.Connection(f.pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retries.Step()):
		}
	}
}

func (f *follower) send(ctx context.Context, d delta) error {
	d.cluster = f.cluster
	select {
	case f.events <- d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once lists the cluster if the client has nothing of it, and watches it until the watch ends. It returns whether the watch began.
func (f *follower) once(ctx context.Context) (began bool, err error) {
	if err := f.hold(ctx, f.catchUp); err != nil {
		return false, err
	}
	query := f.selectors()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", f.at)
	// A watch of a member that has stopped without a sign ends with this, and the next one begins or fails.
	const life = 5 * time.Minute
	query.Set("timeoutSeconds", strconv.Itoa(int(life/time.Second)))
	ctx, cancel := context.WithTimeout(ctx, life+f.patience)
	defer cancel()
	late := time.AfterFunc(f.patience, cancel)
	response, err := f.call.send(ctx, http.MethodGet, f.cluster, f.path, query, http.Header{"Accept": {f.accept}}, nil)
	if !late.Stop() && err == nil {
		_ = response.Body.Close()
		return false, context.DeadlineExceeded
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	f.watches.Inc()
	defer f.watches.Dec()
	body := &io.LimitedReader{R: response.Body}
	decoder := json.NewDecoder(body)
	for {
		body.N = bounds.Searched.Piece.Bytes
		var event struct {
			Type   apiwatch.EventType
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err != nil {
			return true, err
		}
		pass := func(ctx context.Context) error { return f.event(ctx, event.Type, event.Object) }
		if len(event.Object) > smallEvent {
			err = f.hold(ctx, pass)
		} else {
			err = pass(ctx)
		}
		if err != nil {
			return true, err
		}
	}
}

// hold waits for a share of one answer, and has it while do runs.
func (f *follower) hold(ctx context.Context, do func(context.Context) error) error {
	share, err := f.budget.Wait(ctx, budget.Tenant(f.caller.GetName()))
	if err != nil {
		return err
	}
	defer share.End()
	return do(ctx)
}

// catchUp sends the objects of the cluster if the client has nothing of it. Otherwise it returns an error if the client has to list again.
func (f *follower) catchUp(ctx context.Context) error {
	if f.at == "" {
		return f.initial(ctx)
	}
	now, err := f.first(ctx, f.cluster)
	if err != nil {
		return err
	}
	if merge.Earlier(now.At, f.at) {
		return expired("it was restored from a backup")
	}
	return nil
}

// event passes an event of the member on.
func (f *follower) event(ctx context.Context, kind apiwatch.EventType, text []byte) error {
	if kind == apiwatch.Error {
		var status metav1.Status
		if err := json.Unmarshal(text, &status); err != nil {
			return err
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	object, err := merge.ObjectOf(text)
	if err != nil {
		return err
	}
	selected := true
	at := merge.VersionOf(object)
	if merge.IsTable(object) {
		rows, _ := object["rows"].([]any)
		if len(rows) > 0 {
			inner := merge.RowObject(rows[0])
			selected = merge.InNamespaces(inner, f.namespaces())
			if at == "" {
				at = merge.VersionOf(inner)
			}
		}
		f.line(object, rows)
	} else if kind != apiwatch.Bookmark {
		selected = merge.InNamespaces(object, f.namespaces())
	}
	if at == "" {
		return errors.New("the event of the member has no resource version")
	}
	f.at = at
	if !selected {
		object = nil
	}
	return f.send(ctx, delta{kind: kind, object: object, at: at})
}

func (f *follower) namespaces() []string { return f.clusters[f.cluster] }

// line gives a Table of one event the column of the cluster.
func (f *follower) line(object map[string]any, rows []any) {
	if columns, _ := object["columnDefinitions"].([]any); len(columns) > 0 {
		f.columns = columns
		f.table = merge.Table{}
		f.table.Begin(columns)
		object["columnDefinitions"] = f.table.Definitions()
	}
	for i := range rows {
		rows[i] = f.table.Row(rows[i], f.columns, f.cluster)
	}
}

// initial sends all objects of the cluster as new ones. If it fails between them, the client has to list again: what is deleted
// meanwhile would stay with it.
func (f *follower) initial(ctx context.Context) error {
	token, sent, at, most := "", false, "", pageSize
	for {
		next, err := f.page(ctx, f.cluster, f.accept, pageSize, &most, token)
		if err != nil && sent {
			return expired("its objects were not sent completely: " + err.Error())
		}
		if err != nil {
			return err
		}
		if at == "" {
			at = next.At
		}
		for _, item := range next.Items {
			if err := f.send(ctx, delta{kind: apiwatch.Added, object: f.eventOf(item, next)}); err != nil {
				return err
			}
			sent = true
		}
		if token = next.Next; token != "" {
			continue
		}
		f.at = at
		bookmark := map[string]any{"apiVersion": next.APIVersion, "kind": strings.TrimSuffix(next.Kind, "List"), "metadata": map[string]any{"creationTimestamp": nil}}
		if next.Table {
			bookmark["columnDefinitions"], bookmark["rows"] = []any{}, []any{}
		}
		return f.send(ctx, delta{kind: apiwatch.Bookmark, object: bookmark, at: at})
	}
}

// eventOf makes the object of an event of an item of a list.
func (f *follower) eventOf(item any, from merge.Page) map[string]any {
	if from.Table {
		object := map[string]any{"apiVersion": from.APIVersion, "kind": from.Kind, "columnDefinitions": from.Columns, "rows": []any{item}}
		f.line(object, object["rows"].([]any))
		return object
	}
	object, _ := item.(map[string]any)
	if object != nil {
		object["apiVersion"], object["kind"] = from.APIVersion, strings.TrimSuffix(from.Kind, "List")
	}
	return object
}
