package v1alpha1

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// executionNamespacePrefix begins the name of every execution namespace; nobody else may use it.
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
// so objects of equal kind, namespace and name in two groups share it.
func WorkName(kind, namespace, name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, ":", "."))
	identity := name + "-" + strings.ToLower(kind)
	if namespace != "" {
		identity = strings.ToLower(namespace) + "-" + identity
	}
	return name + "-" + NameHash(identity)
}

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
