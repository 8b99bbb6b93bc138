package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	storagevalue "k8s.io/apiserver/pkg/storage/value"
)

// boundToKey returns whether a stored value can be decrypted under its key only. secretbox, which the built-in encryption uses, and AES-CBC
// do not authenticate the key.
func boundToKey(value []byte) bool {
	return bytes.HasPrefix(value, []byte("k8s:enc:")) &&
		!bytes.HasPrefix(value, []byte("k8s:enc:secretbox:")) && !bytes.HasPrefix(value, []byte("k8s:enc:aescbc:"))
}

// rebinder encrypts values anew, for keys that differ from theirs in the prefix.
type rebinder struct {
	was, prefix  string
	transformers encryptionconfig.StaticTransformers
}

// newRebinder reads an EncryptionConfiguration; without a file, it refuses each value. The context ends connections to KMS plugins.
func newRebinder(ctx context.Context, was, prefix, file string) (*rebinder, error) {
	r := &rebinder{was: was, prefix: prefix}
	if file == "" {
		return r, nil
	}
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, "")
	if err != nil {
		return nil, fmt.Errorf("reading the encryption configuration %s: %w", file, err)
	}
	r.transformers = config.Transformers
	return r, nil
}

// rebind returns what is stored under the new key instead of a value that is bound to the key it was under.
func (r *rebinder) rebind(ctx context.Context, key string, value []byte) ([]byte, error) {
	if r.transformers == nil {
		return nil, fmt.Errorf("the value of %s is encrypted by AES-GCM or a KMS plugin, which binds it to its key: "+
			"set --encryption-provider-config to that of the server, or restore to the prefix %s", key, r.was)
	}
	path := strings.TrimPrefix(key, r.was)
	var faults []error
	for _, resource := range r.resourcesOf(path) {
		transformer := r.transformers.TransformerForResource(resource)
		plain, _, err := transformer.TransformFromStorage(ctx, value, storagevalue.DefaultContext(key))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		sealed, err := transformer.TransformToStorage(ctx, plain, storagevalue.DefaultContext(r.prefix+path))
		if err != nil {
			return nil, fmt.Errorf("encrypting the value of %s: %w", key, err)
		}
		return sealed, nil
	}
	return nil, fmt.Errorf("the value of %s cannot be decrypted with the encryption configuration: %w", key, errors.Join(faults...))
}

// resourcesOf returns the resources that a key can be of. Keys of custom resources have the group; those of Kubernetes' own may be without.
func (r *rebinder) resourcesOf(path string) []schema.GroupResource {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	second, _, _ := strings.Cut(rest, "/")
	if strings.Contains(first, ".") {
		return []schema.GroupResource{{Group: first, Resource: second}}
	}
	found := slices.SortedFunc(maps.Keys(r.transformers), func(a, b schema.GroupResource) int { return strings.Compare(a.Group, b.Group) })
	found = slices.DeleteFunc(found, func(resource schema.GroupResource) bool { return resource.Resource != first })
	return append(found, schema.GroupResource{Resource: first})
}
