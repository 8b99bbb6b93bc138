package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// executionNamespacePrefix begins the name of every execution namespace; no other namespace may have it.
const executionNamespacePrefix = "karmada-es-"

// ExecutionNamespace returns the namespace that holds the Works of a cluster.
func ExecutionNamespace(cluster string) string {
	return executionNamespacePrefix + cluster
}

// ClusterOfExecutionNamespace returns the cluster whose Works a namespace holds,
// and false if it is no execution namespace.
func ClusterOfExecutionNamespace(namespace string) (string, bool) {
	cluster, ok := strings.CutPrefix(namespace, executionNamespacePrefix)
	return cluster, ok && cluster != ""
}

// WorkName returns the name of the Work that carries an object. Namespace is
// empty for a cluster-scoped object. Group and version do not go into the name,
// so objects of equal kind, namespace and name in two groups share it, and so do
// objects whose names differ in case and colons only: the second one's Work has
// the AlternativeWorkName.
func WorkName(kind, namespace, name string) string {
	full := name
	name = strings.ToLower(strings.ReplaceAll(name, ":", "."))
	identity := name + "-" + strings.ToLower(kind)
	if namespace != "" {
		identity = strings.ToLower(namespace) + "-" + identity
	}
	return LegalName(name+"-"+NameHash(identity), namespace+"/"+kind+"/"+full)
}

// AlternativeWorkName returns the name of the Work that carries an object while
// the Work of another object has the WorkName. No two objects share it.
func AlternativeWorkName(kind schema.GroupKind, namespace, name string) string {
	return AlternativeName(strings.ReplaceAll(name, ":", "."), kind, namespace, name)
}

// AlternativeName returns base with a hash of the whole identity of an object
// appended, cut to a length that names may have.
func AlternativeName(base string, kind schema.GroupKind, namespace, name string) string {
	return hashedName(base, identityOf(kind, namespace, name))
}

func identityOf(kind schema.GroupKind, namespace, name string) string {
	return kind.String() + "/" + namespace + "/" + name
}

// maxName is how long the name of an object may be.
const maxName = 253

// LegalName returns name if an object may have it. Otherwise it returns the legal
// part of it with a hash of identity, which distinguishes it from others.
func LegalName(name, identity string) string {
	if len(name) <= maxName && isSubdomain(name) {
		return name
	}
	return hashedName(name, identity)
}

// hashedName makes a legal name of any text. The hash has 64 bits: with the 32
// of NameHash, two of 100,000 objects would share a name.
func hashedName(name, identity string) string {
	const hashed = 8
	sum := sha256.Sum256([]byte(identity))
	suffix := "-" + hex.EncodeToString(sum[:hashed])
	clean := []byte(strings.ToLower(name))
	for i, c := range clean {
		if !isAlphanumeric(c) && c != '.' && c != '-' {
			clean[i] = '-'
		}
	}
	if len(clean) > maxName-len(suffix) {
		clean = clean[:maxName-len(suffix)]
	}
	base := strings.Trim(string(clean), ".-")
	if !isSubdomain(base) {
		base = strings.Trim(strings.ReplaceAll(base, ".", "-"), "-")
	}
	return strings.TrimPrefix(base+suffix, "-")
}

// isSubdomain returns whether text consists of lower-case letters, digits, dashes
// and dots, and every part between dots begins and ends with a letter or digit.
func isSubdomain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case isAlphanumeric(c):
		case c != '.' && c != '-', i == 0, i == len(text)-1, // at an end
			c == '.' && !isAlphanumeric(text[i-1]), c == '-' && text[i-1] == '.':
			return false
		}
	}
	return text != ""
}

func isAlphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// NameHash returns the short hash that generated names end with: the decimal
// FNV-1a-32 of s, written in letters and digits that cannot form words.
func NameHash(s string) string {
	hash := fnv.New32a()
	hash.Write([]byte(s)) // never fails, by the contract of hash.Hash
	return safeEncode(strconv.FormatUint(uint64(hash.Sum32()), 10))
}

// safeAlphabet has no vowels and no digits that look like letters.
const safeAlphabet = "bcdfghjklmnpqrstvwxz2456789"

func safeEncode(s string) string {
	encoded := make([]byte, len(s))
	for i := range len(s) {
		encoded[i] = safeAlphabet[int(s[i])%len(safeAlphabet)]
	}
	return string(encoded)
}
