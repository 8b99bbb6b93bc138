package merge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"
)

// List writes a list page by page. Its metadata comes last, since the version is known then.
type List struct {
	// Writer receives the list.
	Writer http.ResponseWriter
	begun  bool
	items  int
	table  Table
}

// Add adds the objects of a page.
func (l *List) Add(p Page, cluster string) error {
	if !l.begun {
		head := map[string]any{"kind": p.Kind, "apiVersion": p.APIVersion}
		items := "items"
		if p.Table {
			l.table.Begin(p.Columns)
			head["columnDefinitions"], items = l.table.Definitions(), "rows"
		}
		text, err := json.Marshal(head)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		l.begun = true
		l.Writer.Header().Set("Content-Type", "application/json")
		text = append(bytes.TrimSuffix(text, []byte("}")), `,"`+items+`":[`...)
		if _, err := l.Writer.Write(text); err != nil {
			return err
		}
	}
	for _, item := range p.Items {
		if p.Table {
			item = l.table.Row(item, p.Columns, cluster)
		}
		text, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("writing an object: %w", err)
		}
		if l.items > 0 {
			text = append([]byte(","), text...)
		}
		l.items++
		if _, err := l.Writer.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// End finishes the list.
func (l *List) End(version, token string) error {
	metadata := map[string]any{"resourceVersion": version}
	if token != "" {
		metadata["continue"] = token
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return l.Fail(err)
	}
	_, _ = io.Copy(l.Writer, strings.NewReader(`],"metadata":`+string(text)+"}\n")) // the client is gone if this fails
	return nil
}

// Fail returns an error while the client can be sent one. Later the connection is aborted: a list that ends early is no complete list.
func (l *List) Fail(err error) error {
	if l.begun {
		panic(http.ErrAbortHandler)
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status
	}
	return apierrors.NewServiceUnavailable(err.Error())
}

// Unselected answers search/cache where no registry selects a resource. As in Karmada, a list of a kind that a cluster serves is empty then, and a
// warning has the reason; kind is "" if no cluster serves it.
func Unselected(ctx context.Context, w http.ResponseWriter, resource schema.GroupVersionResource, kind, verb string) error {
	message := fmt.Sprintf("no ResourceRegistry selects %s in a cluster that serves it: "+
		"create one, or correct apiVersion, kind and namespace in its spec.resourceSelectors", resource)
	if verb != "list" || kind == "" {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
		}}
	}
	warning.AddWarning(ctx, "", message)
	empty := &List{Writer: w}
	if err := empty.Add(Page{APIVersion: resource.GroupVersion().String(), Kind: kind + "List"}, ""); err != nil {
		return empty.Fail(err)
	}
	return empty.End("", "")
}

// Page is a part of the list of one cluster.
type Page struct {
	// APIVersion and Kind are those of the list.
	APIVersion, Kind string
	// Table is true if the items are rows of a Table, and Columns are its columns.
	Table   bool
	Columns []any
	Items   []any
	// At is the resource version of the list, and Next the token of the next page.
	At, Next string
}

// PageOf takes the items of a list that keep selects; it gets the object of a row of a Table, nil if the client requests none.
func PageOf(list map[string]any, keep func(object map[string]any) bool) Page {
	u := unstructured.Unstructured{Object: list}
	p := Page{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Table: IsTable(list), At: VersionOf(list)}
	p.Next, _, _ = unstructured.NestedString(list, "metadata", "continue")
	p.Columns, _ = list["columnDefinitions"].([]any)
	all, _ := list["items"].([]any)
	if p.Table {
		all, _ = list["rows"].([]any)
	}
	for _, item := range all {
		object, _ := item.(map[string]any)
		if p.Table {
			object = RowObject(item)
		}
		if keep(object) {
			p.Items = append(p.Items, item)
		}
	}
	return p
}
