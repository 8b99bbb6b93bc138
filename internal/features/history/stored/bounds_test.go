package stored

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func tombstone(name, namespace string, objects, size int64) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{tombstoneLabel: namespace},
		Annotations: map[string]string{countAnnotation: strconv.FormatInt(objects, 10), bytesAnnotation: strconv.FormatInt(size, 10)},
	}}
}

// TestWhatExceedsTheBounds: the oldest of a namespace go first, and a namespace with much does not displace what others deleted.
func TestWhatExceedsTheBounds(t *testing.T) {
	var many []metav1.PartialObjectMetadata
	many = append(many, tombstone("quiet", "quiet", 1, 1000))
	for i := range 20 {
		many = append(many, tombstone(fmt.Sprint("flood-", i), fmt.Sprint("flood-", i), 100, ofNamespace.bytes/2))
	}
	// The number is exceeded, and the namespace with most bytes has one object.
	small := []metav1.PartialObjectMetadata{tombstone("victim", "victim", 1, 200_000)}
	for i := range 11 {
		for j := range 10 {
			small = append(small, tombstone(fmt.Sprintf("small-%02d-%d", i, j), fmt.Sprintf("small-%02d", i), 100, 100))
		}
	}
	// Both are exceeded: each is taken from the namespace that has most of it.
	both := []metav1.PartialObjectMetadata{tombstone("victim", "victim", 1, 200_000)}
	for i := range 9 {
		both = append(both, tombstone(fmt.Sprint("large-", i), fmt.Sprint("large-", i), 1, ofNamespace.bytes-int64(i)))
	}
	both = append(both, small[1:]...)
	for name, tc := range map[string]struct {
		all  []metav1.PartialObjectMetadata
		want []string
	}{
		"Few":     {[]metav1.PartialObjectMetadata{tombstone("a", "x", 10, 10)}, nil},
		"Objects": {[]metav1.PartialObjectMetadata{tombstone("a", "x", 600, 10), tombstone("b", "y", 600, 10), tombstone("c", "x", 600, 10)}, []string{"a"}},
		"Bytes":   {[]metav1.PartialObjectMetadata{tombstone("a", "x", 1, 5<<20), tombstone("b", "x", 1, 5<<20)}, []string{"a"}},
		"All":     {many, []string{"flood-0", "flood-1", "flood-10", "flood-11", "flood-12"}},
		"Number": {small, []string{
			"small-00-0", "small-01-0", "small-02-0", "small-03-0", "small-04-0", "small-05-0", "small-06-0", "small-07-0", "small-08-0", "small-09-0", "small-10-0",
		}},
		"Both": {both, []string{
			"small-00-0", "small-01-0", "small-02-0", "small-03-0", "small-04-0", "small-05-0", "small-06-0", "small-07-0", "small-08-0", "small-09-0", "small-10-0",
			"large-0", "large-1",
		}},
		"Unreadable": {[]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := surplus(tc.all); !slices.Equal(got, tc.want) {
				t.Errorf("deleted are %v, want %v", got, tc.want)
			}
		})
	}
}
