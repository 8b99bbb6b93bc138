package server

import (
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flagship-k8s/flagship/internal/features/limit"
	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// storageFlags bound what is stored.
type storageFlags struct {
	objects     int64
	size, quota string
}

func (s *storageFlags) add(f *pflag.FlagSet) {
	f.Int64Var(&s.objects, "namespace-object-limit", bounds.DefaultObjects, "number of objects that may be stored for a namespace, Works included; 0 for no limit (annotation flagship.io/object-limit on a Namespace: its own limit)")
	f.StringVar(&s.size, "namespace-size-limit", "1Gi", "bytes that may be stored for a namespace, Works included; 0 for no limit (annotation flagship.io/size-limit on a Namespace: its own limit)")
	f.StringVar(&s.quota, "storage-quota", "8Gi", "largest size of the database of the embedded etcd; when it is reached nothing can be written")
}

// apply sets the options. To users 0 is no limit; in options it is the default.
func (s *storageFlags) apply(o *controlplane.Options) error {
	size, err := bytesOf("namespace-size-limit", s.size)
	if err != nil {
		return err
	}
	if s.objects < 0 {
		return cli.UsageErrorf("--namespace-object-limit cannot be %d", s.objects)
	}
	quota, err := bytesOf("storage-quota", s.quota)
	if err != nil {
		return err
	}
	if quota == 0 {
		return cli.UsageErrorf("--storage-quota cannot be 0")
	}
	o.Tunable.NamespaceLimits = limit.Limits{Objects: orUnlimited(s.objects), Bytes: orUnlimited(size)}
	o.Server.StorageQuota = quota
	return nil
}

func orUnlimited(value int64) int64 {
	if value == 0 {
		return -1
	}
	return value
}

func bytesOf(flag, text string) (int64, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return 0, cli.UsageErrorf("--%s is a quantity of bytes such as 2Gi, not %q", flag, text)
	}
	return quantity.Value(), nil
}
