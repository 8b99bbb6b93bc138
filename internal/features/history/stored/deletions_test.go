package stored

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// metadataOf reads the metadata of what a fake clientset has.
type metadataOf struct {
	client.Reader
	kube *kubefake.Clientset
}

func (m metadataOf) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	list, o := into.(*metav1.PartialObjectMetadataList), client.ListOptions{}
	o.ApplyOptions(options)
	by := metav1.ListOptions{LabelSelector: o.LabelSelector.String()}
	list.Items = nil
	switch list.Kind {
	case "Secret", "SecretList":
		found, err := m.kube.CoreV1().Secrets(o.Namespace).List(ctx, by)
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: item.ObjectMeta})
		}
	default:
		found, err := m.kube.AppsV1().ControllerRevisions(o.Namespace).List(ctx, by)
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: item.ObjectMeta})
		}
	}
	slices.SortFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int { // as in etcd
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return nil
}

// newStorage is a storage in memory. Objects with a generated name have a number.
func newStorage() (*Storage, *kubefake.Clientset) {
	kube := kubefake.NewClientset()
	n := 0
	kube.PrependReactor("create", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if s := action.(clienttesting.CreateAction).GetObject().(*corev1.Secret); s.Name == "" {
			n++
			s.Name = fmt.Sprintf("%s%05d", s.GenerateName, n)
		}
		return false, nil, nil
	})
	return New(kube, metadataOf{kube: kube}, NewLosses(nil)), kube
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// deleted is a ConfigMap with data of some bytes, which cannot be compressed much, deleted some seconds after epoch.
func deleted(namespace, name string, seconds, size int) Deleted {
	return Deleted{UID: types.UID(namespace + "-" + name), Record: history.Record{
		Time: epoch.Add(time.Duration(seconds) * time.Second), Author: history.Author{User: "alice"}, Part: fleetv1alpha1.RevisionTemplate,
		State: history.State{Template: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name}, "data": map[string]any{"a": noise(size)},
		}},
	}}
}

func noise(size int) string {
	var all strings.Builder
	for all.Len() < size {
		all.WriteString(rand.Text())
	}
	return all.String()[:size]
}

// TestWhatWasDeletedIsListedWithoutItsContent: lists are made of metadata, the newest first, and contents are read on request, until that is
// enough.
func TestWhatWasDeletedIsListedWithoutItsContent(t *testing.T) {
	ctx := t.Context()
	storage, kube := newStorage()
	var all []Deleted
	for i := range 2 * maxBatch {
		all = append(all, deleted("shop", fmt.Sprint(i), i%maxBatch, 10))
	}
	all = append(all, deleted("shop", "large", 1000, 700<<10), deleted("shop", "too-large", 2000, 2<<20))
	if err := storage.Keep(ctx, "shop", all); err != nil {
		t.Fatal(err)
	}
	if err := storage.Keep(ctx, "other", []Deleted{deleted("other", "x", 3000, 10)}); err != nil {
		t.Fatal(err)
	}
	kube.ClearActions()
	entries, err := storage.Deleted(ctx, "")
	if err != nil || len(entries) != len(all)+1 {
		t.Fatalf("there are %d entries, want %d: %v", len(entries), len(all)+1, err)
	}
	if !slices.IsSortedFunc(entries, Entry.Compare) || entries[0].Object.Name != "x" || entries[1].Object.Name != "too-large" || entries[1].TooLarge < maxContent || entries[2].TooLarge != 0 {
		t.Errorf("the first entries are %+v", entries[:3])
	}
	for _, action := range kube.Actions() {
		if action.GetVerb() == "get" {
			t.Errorf("a list reads %v", action)
		}
	}
	if inShop, err := storage.Deleted(ctx, "shop"); err != nil || len(inShop) != len(all) {
		t.Errorf("%d entries of a namespace: %v", len(inShop), err)
	}
	kube.ClearActions()
	var names []string
	if err := storage.Contents(ctx, entries[:5], func(i int, d Deleted) (bool, error) {
		if d.UID != entries[i].UID {
			t.Errorf("the content of %s is that of %s", entries[i].UID, d.UID)
		}
		value, _, err := unstructured.NestedString(d.State.Template, "data", "a")
		if err != nil || (value == "") != (entries[i].TooLarge > 0) {
			t.Errorf("%s has %d characters: %v", d.UID, len(value), err)
		}
		names = append(names, entries[i].Object.Name)
		return len(names) < 3, nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"x", "too-large", "large"}; !slices.Equal(names, want) {
		t.Errorf("read are %q, want %q", names, want)
	}
	if reads := len(kube.Actions()); reads != 3 {
		t.Errorf("three contents take %d requests", reads)
	}
}

// TestARevisionThatIsTooLarge is stored without its content, once, and the next one that fits is stored whole.
func TestARevisionThatIsTooLarge(t *testing.T) {
	ctx := t.Context()
	storage, _ := newStorage()
	template := &unstructured.Unstructured{Object: deleted("shop", "web", 0, 0).State.Template}
	template.SetUID("u")
	write := func(number int64, state history.State) *Revisions {
		t.Helper()
		kept, err := storage.Revisions(ctx, template)
		if err != nil {
			t.Fatal(err)
		}
		record := &history.Record{Revision: number, Time: epoch, Author: history.Author{User: "alice"}, Part: fleetv1alpha1.RevisionTemplate, State: state}
		if err := storage.Write(ctx, template, record, kept, 10); err != nil {
			t.Fatal(err)
		}
		if kept, err = storage.Revisions(ctx, template); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	small, large := deleted("shop", "web", 0, 10).State, deleted("shop", "web", 0, 3<<20).State
	write(1, small)
	kept := write(2, large)
	if len(kept.Records) != 2 || kept.Records[1].TooLarge <= maxRevision || kept.Records[1].Author.User != "alice" || kept.Records[1].State.Template["data"] != nil {
		t.Fatalf("the revisions are %+v", kept.Records[1:])
	}
	if hash, err := storage.Hash(ctx, template, large); err != nil || !kept.Records[1].Is(hash) || kept.Records[0].Is(hash) {
		t.Errorf("the revision is not found by its hash: %v", err)
	}
	if kept = write(3, large); len(kept.Records) != 2 {
		t.Errorf("what did not change is revision %d", kept.Records[2].Revision)
	}
	if kept = write(3, deleted("shop", "web", 0, 20).State); len(kept.Records) != 3 || kept.Records[2].TooLarge != 0 {
		t.Errorf("%d revisions", len(kept.Records))
	}
}

// TestChangesSince: the newest changes come first, no more than the limit, each with the revision before, and only of wanted owners.
func TestChangesSince(t *testing.T) {
	ctx := t.Context()
	storage, kube := newStorage()
	for owner := range 20 {
		template := &unstructured.Unstructured{Object: deleted("shop", fmt.Sprint(owner), 0, 0).State.Template}
		template.SetUID(types.UID(fmt.Sprint("u", owner)))
		kept := &Revisions{}
		for number := range int64(12) {
			record := &history.Record{Revision: number + 1, Time: epoch, State: deleted("shop", fmt.Sprint(owner), 0, 10).State}
			if err := storage.Write(ctx, template, record, kept, 50); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := kube.AppsV1().ControllerRevisions("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items { // each a minute after the one before it
		r := &list.Items[i]
		r.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(r.Revision) * time.Minute))
		if _, err := kube.AppsV1().ControllerRevisions("shop").Update(ctx, r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	unwanted := func(o Owner) bool { return o.UID != "u7" }
	var got []Change
	since := func(from time.Time, limit int) bool {
		t.Helper()
		got = nil
		more, err := storage.Since(ctx, "", from, limit, unwanted, func(c Change) { got = append(got, c) })
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got {
			if c.Before == nil || c.Before.Revision != c.After.Revision-1 || c.Owner.UID == "u7" || c.Owner.Object.Name != c.After.State.Template["metadata"].(map[string]any)["name"] {
				t.Fatalf("a change is %+v", c)
			}
		}
		return more
	}
	if more := since(epoch.Add(10*time.Minute-time.Second), 100); more || len(got) != 3*19 || got[0].After.Revision != 12 || got[len(got)-1].After.Revision != 10 {
		t.Errorf("%d changes of the last three minutes, more %v", len(got), more)
	}
	if more := since(epoch, 100); !more || len(got) != 100 || got[0].After.Revision != 12 || got[99].After.Revision != 7 {
		t.Errorf("%d changes, more %v", len(got), more)
	}
	if more := since(epoch, 1000); more || len(got) != 11*19 {
		t.Errorf("%d changes in all, more %v", len(got), more)
	}
}
