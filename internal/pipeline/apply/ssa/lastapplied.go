package ssa

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

// LastApplied is the content of the annotation LastAppliedAnnotation: a hash of the desired object and, each after a dot, the footprint of the
// fields that were set and, if there are any, that of the fields that the member's schema does not have, and what stands for the
// schema that has not.
type LastApplied struct {
	Hash      string
	Footprint footprint
	Misfits   footprint
	Schema    string
}

// footprint is a set of paths as sorted 32-bit hashes: some 500 characters for a Deployment. One in a million unrelated
// paths is mistaken for a member of a set of thousands, which takes a conflict for drift.
type footprint struct {
	hashes []uint32
	// narrow hashes have 16 bits, as older versions wrote them.
	narrow bool
}

const (
	// maxFootprint bounds the annotation to 44 kB. An object with more nodes has an empty footprint: of none of its fields
	// it is known that it was ours, so nothing in it is taken from others.
	maxFootprint = 8192
	// wideMark comes before a footprint of 32-bit hashes; it is no character of base64.
	wideMark = "~"
)

// Wanted is the hash of an object as it should be, our own annotations not counted.
func Wanted(obj *unstructured.Unstructured) (string, error) {
	raw, err := json.Marshal(withoutOwn(obj).Object) // keys come out sorted
	if err != nil {
		return "", fmt.Errorf("encoding the object: %w", err)
	}
	h := fnv.New64a()
	h.Write(raw) // never fails, by the contract of hash.Hash
	return strconv.FormatUint(h.Sum64(), 36), nil
}

// ownAnnotations are those that apply writes by itself: they are in no Work.
var ownAnnotations = []string{
	workv1alpha1.LastAppliedAnnotation, workv1alpha1.AdoptedAnnotation, workv1alpha1.ControlPlaneAnnotation, workv1alpha1.TakenFromAnnotation,
}

// withoutOwn returns obj without our annotations; obj itself is not changed.
func withoutOwn(obj *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := obj.GetAnnotations()
	if !slices.ContainsFunc(ownAnnotations, func(key string) bool { _, has := annotations[key]; return has }) {
		return obj
	}
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	metadata, _ := obj.Object["metadata"].(map[string]any)
	out.Object["metadata"] = maps.Clone(metadata)
	for _, key := range ownAnnotations {
		delete(annotations, key) // GetAnnotations returned a copy
	}
	out.SetAnnotations(annotations)
	return out
}

// content is what of an object can be owned: all but what identifies it and our own annotations. The parts are shared
// with obj.
func content(obj *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(withoutOwn(obj).Object)
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

// FootprintOf is the footprint of all fields of an object, and of further paths.
func FootprintOf(obj *unstructured.Unstructured, further ...string) footprint {
	var hashes []uint32
	for _, path := range further {
		hashes = append(hashes, pathHash(path))
	}
	eachPath(content(obj), "", func(path string) { hashes = append(hashes, pathHash(path)) })
	if len(hashes) > maxFootprint {
		return footprint{}
	}
	return setOf(hashes)
}

func FootprintOfPaths(paths []string) footprint {
	var hashes []uint32
	for _, path := range paths {
		hashes = append(hashes, pathHash(path))
	}
	return setOf(hashes)
}

func setOf(hashes []uint32) footprint {
	slices.Sort(hashes)
	return footprint{hashes: slices.Compact(hashes)}
}

func pathHash(path string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(path)) // never fails, by the contract of hash.Hash
	return h.Sum32()
}

func (f footprint) empty() bool { return len(f.hashes) == 0 }

// has returns whether a path is in the footprint; one that was too large to be kept has none.
func (f footprint) has(path string) bool {
	h := pathHash(path)
	if f.narrow {
		h = uint32(uint16(h>>16) ^ uint16(h))
	}
	_, ok := slices.BinarySearch(f.hashes, h)
	return ok
}

func (f footprint) encode() string {
	if f.empty() {
		return ""
	}
	raw := make([]byte, 0, 4*len(f.hashes))
	for _, h := range f.hashes {
		raw = binary.BigEndian.AppendUint32(raw, h)
	}
	return wideMark + base64.RawURLEncoding.EncodeToString(raw)
}

func decodeFootprint(text string) (footprint, bool) {
	text, wide := strings.CutPrefix(text, wideMark)
	size := 2
	if wide {
		size = 4
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw)%size != 0 {
		return footprint{}, false
	}
	f := footprint{narrow: !wide && len(raw) > 0}
	for ; len(raw) > 0; raw = raw[size:] {
		if wide {
			f.hashes = append(f.hashes, binary.BigEndian.Uint32(raw))
		} else {
			f.hashes = append(f.hashes, uint32(binary.BigEndian.Uint16(raw)))
		}
	}
	return f, true
}

// WasApplied returns whether a path of an object was applied last.
func WasApplied(live *unstructured.Unstructured, path string) bool {
	last, _ := LastAppliedOf(live)
	return last.Footprint.has(path)
}

func (l LastApplied) String() string {
	text := l.Hash + "." + l.Footprint.encode()
	if !l.Misfits.empty() {
		text += "." + l.Misfits.encode() + "." + l.Schema
	}
	return text
}

// LastAppliedOf reads what was applied to an object; false if nothing was, or it cannot be read.
func LastAppliedOf(obj *unstructured.Unstructured) (LastApplied, bool) {
	hash, rest, ok := strings.Cut(obj.GetAnnotations()[workv1alpha1.LastAppliedAnnotation], ".")
	set, rest, _ := strings.Cut(rest, ".")
	left, schema, _ := strings.Cut(rest, ".")
	footprint, setOK := decodeFootprint(set)
	misfits, leftOK := decodeFootprint(left)
	if !ok || hash == "" || !setOK || !leftOK {
		return LastApplied{}, false
	}
	return LastApplied{Hash: hash, Footprint: footprint, Misfits: misfits, Schema: schema}, true
}
