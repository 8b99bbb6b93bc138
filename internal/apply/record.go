package apply

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// record is the content of the record annotation: a hash of what was wanted and, each after a dot, the footprint of the
// fields that were set and, if there are any, that of the fields that the member has no room for, and what stands for the
// schema that has not.
type record struct {
	hash      string
	footprint footprint
	misfits   footprint
	schema    string
}

// footprint is a set of paths as sorted 16-bit hashes: some 250 characters for a Deployment. One in some hundred
// unrelated paths is mistaken for a member, which takes a conflict for drift.
type footprint []uint16

// maxFootprint bounds the annotation. An object with more nodes has an empty footprint that contains everything.
const maxFootprint = 8192

// wanted is the hash of an object as it should be, our own annotations not counted.
func wanted(obj *unstructured.Unstructured) (string, error) {
	raw, err := json.Marshal(unrecorded(obj).Object) // keys come out sorted
	if err != nil {
		return "", fmt.Errorf("encoding the object: %w", err)
	}
	h := fnv.New64a()
	h.Write(raw) // never fails, by the contract of hash.Hash
	return strconv.FormatUint(h.Sum64(), 36), nil
}

// unrecorded returns obj without our annotations; obj itself is not changed.
func unrecorded(obj *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := obj.GetAnnotations()
	if annotations[workv1alpha1.RecordAnnotation] == "" && annotations[workv1alpha1.AdoptedAnnotation] == "" {
		return obj
	}
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	metadata, _ := obj.Object["metadata"].(map[string]any)
	out.Object["metadata"] = maps.Clone(metadata)
	delete(annotations, workv1alpha1.RecordAnnotation) // GetAnnotations returned a copy
	delete(annotations, workv1alpha1.AdoptedAnnotation)
	out.SetAnnotations(annotations)
	return out
}

// content is what of an object can be owned: all but what identifies it and our own annotations. The parts are shared
// with obj.
func content(obj *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(unrecorded(obj).Object)
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, name := range []string{"name", "namespace", "uid", "resourceVersion"} {
			delete(metadata, name)
		}
		fields["metadata"] = metadata
	}
	return fields
}

func footprintOf(obj *unstructured.Unstructured) footprint {
	var f footprint
	eachPath(content(obj), "", func(path string) { f = append(f, pathHash(path)) })
	if len(f) > maxFootprint {
		return nil
	}
	return f.sorted()
}

func footprintOfPaths(paths []string) footprint {
	var f footprint
	for _, path := range paths {
		f = append(f, pathHash(path))
	}
	return f.sorted()
}

func (f footprint) sorted() footprint {
	slices.Sort(f)
	return slices.Compact(f)
}

func pathHash(path string) uint16 {
	h := fnv.New32a()
	h.Write([]byte(path)) // never fails, by the contract of hash.Hash
	sum := h.Sum32()
	return uint16(sum>>16) ^ uint16(sum)
}

// covers tells whether a path is in the footprint; one that was too large to be recorded covers all.
func (f footprint) covers(path string) bool { return len(f) == 0 || f.has(path) }

func (f footprint) has(path string) bool {
	_, ok := slices.BinarySearch(f, pathHash(path))
	return ok
}

func (f footprint) encode() string {
	raw := make([]byte, 0, 2*len(f))
	for _, h := range f {
		raw = binary.BigEndian.AppendUint16(raw, h)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeFootprint(text string) (footprint, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw)%2 != 0 {
		return nil, false
	}
	var f footprint
	for ; len(raw) > 0; raw = raw[2:] {
		f = append(f, binary.BigEndian.Uint16(raw))
	}
	return f, true
}

func (r record) String() string {
	text := r.hash + "." + r.footprint.encode()
	if len(r.misfits) > 0 {
		text += "." + r.misfits.encode() + "." + r.schema
	}
	return text
}

// recordOf reads what was applied to an object; false if nothing was, or it cannot be read.
func recordOf(obj *unstructured.Unstructured) (record, bool) {
	hash, rest, ok := strings.Cut(obj.GetAnnotations()[workv1alpha1.RecordAnnotation], ".")
	set, rest, _ := strings.Cut(rest, ".")
	left, schema, _ := strings.Cut(rest, ".")
	footprint, setOK := decodeFootprint(set)
	misfits, leftOK := decodeFootprint(left)
	if !ok || hash == "" || !setOK || !leftOK {
		return record{}, false
	}
	return record{hash: hash, footprint: footprint, misfits: misfits, schema: schema}, true
}
