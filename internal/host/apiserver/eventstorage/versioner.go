package eventstorage

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// memoryBits leave 38 bits for etcd's revision: eight years at 1,000 writes a second.
const memoryBits = 26

const memoryMask = 1<<memoryBits - 1

// Versioner reads and writes the upper part of a resourceVersion, as the storage in etcd does.
type Versioner struct{ storage.APIObjectVersioner }

// UpdateObject implements storage.Versioner.
func (v Versioner) UpdateObject(obj runtime.Object, revision uint64) error {
	return v.APIObjectVersioner.UpdateObject(obj, revision<<memoryBits)
}

// UpdateList implements storage.Versioner.
func (v Versioner) UpdateList(obj runtime.Object, revision uint64, next string, remaining *int64) error {
	return v.APIObjectVersioner.UpdateList(obj, revision<<memoryBits, next, remaining)
}

// ObjectResourceVersion implements storage.Versioner.
func (v Versioner) ObjectResourceVersion(obj runtime.Object) (uint64, error) {
	version, err := v.APIObjectVersioner.ObjectResourceVersion(obj)
	return version >> memoryBits, err
}

// ParseResourceVersion implements storage.Versioner. A version from before this collection had two parts is that of the first
// revision, which is compacted, so that its client lists again.
func (v Versioner) ParseResourceVersion(version string) (uint64, error) {
	parsed, err := v.APIObjectVersioner.ParseResourceVersion(version)
	if err == nil && parsed > 0 && parsed>>memoryBits == 0 {
		return 1, nil
	}
	return parsed >> memoryBits, err
}
