package apiserver

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/access"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/webhooks"
)

const (
	// watchDrain is how long a stopping server lets watches end on their own.
	watchDrain = 2 * time.Second
	// hangUp is how long it waits for clients that keep a connection open.
	hangUp = 2 * time.Second
	// eventLife is how long an Event is kept.
	eventLife = time.Hour
)

// build turns the config into upstream's options, with every file they name in place.
func build(ctx context.Context, cfg Config, keys *credentials.Keyring, listener net.Listener, storage storagebackend.TransportConfig, called *webhooks.Services) (options.CompletedOptions, error) {
	if err := settleGates(); err != nil {
		return options.CompletedOptions{}, err
	}
	o := options.NewServerRunOptions()
	keys.Apply(o)
	if err := cfg.Authentication.Apply(o, cfg.DataDir, authorizers(cfg)...); err != nil {
		return options.CompletedOptions{}, err
	}
	if err := store(o, cfg, keys, storage); err != nil {
		return options.CompletedOptions{}, err
	}
	if cfg.Role == Hub { // of requests to a member nothing is recorded
		if err := cfg.Audit.Apply(o, cfg.DataDir); err != nil {
			return options.CompletedOptions{}, err
		}
	}
	serve(o, cfg, listener)
	if cfg.Role == Hub {
		// There is no network of cluster IPs here: webhooks behind a Service are called at its endpoints.
		o.EnableAggregatorRouting = true
		o.SystemNamespaces = []string{
			metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
			clusterv1alpha1.SystemNamespace, clusterv1alpha1.ClusterNamespace,
		}
	}
	access.Admit(o, cfg.Admission, cfg.Role == Hub)
	if cfg.Role == Hub {
		plugins := o.Admission.GenericAdmission
		plugins.Decorators = append(admission.Decorators{webhooks.Admission(cfg.WebhookRules(), called)}, plugins.Decorators...)
	}
	o.APIEnablement.RuntimeConfig = cfg.RuntimeConfig
	o.AllowPrivileged = cfg.Role == Member
	if cfg.Kubelets != nil {
		cfg.Kubelets(&o.KubeletConfig)
	}
	if cfg.RuntimeConfig["resource.k8s.io/v1"] == "false" {
		// It watches claims in that version, whatever is served, and would never be ready; so would the authorizer of nodes.
		o.Admission.GenericAdmission.DisablePlugins = append(o.Admission.GenericAdmission.DisablePlugins, "ResourceQuota")
	}

	completed, err := o.Complete(ctx)
	if err != nil {
		return completed, fmt.Errorf("completing API server options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return completed, fmt.Errorf("validating API server options: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// settleGates turns off two features that only serve clusters of API servers of different versions and
// write a Lease every ten seconds each, and two that cost more than they give next to an etcd in the same
// process. One keeps the index of every watch cache as it was after each write of the last minute or more,
// so that a list of the past need not come from etcd: a quarter of what was live after a burst. The other
// checks those, and reads all of etcd every five minutes for it.
func settleGates() error {
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.APIServerIdentity):                   false,
		string(features.UnknownVersionInteroperabilityProxy): false,
		string(features.ListFromCacheSnapshot):               false,
		string(features.DetectCacheInconsistency):            false,
	})
	if err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	return nil
}

func serve(o *options.ServerRunOptions, cfg Config, listener net.Listener) {
	o.SecureServing.Listener = listener
	o.GenericServerRunOptions.AdvertiseAddress = net.ParseIP(cfg.AdvertiseAddress)
	o.GenericServerRunOptions.ExternalHost = cfg.AdvertiseAddress
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchDrain
	o.Features.EnableProfiling = cfg.Profiling
	o.Traces.ConfigFile = cfg.TracingConfigFile
	o.Features.EnableContentionProfiling = false
	o.ServiceClusterIPRanges = cfg.ServiceCIDR
	o.EventTTL = eventLife
	// Nothing in these clusters reaches the API server through the kubernetes Service.
	o.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	// More than one would hold back every new CustomResourceDefinition for five seconds.
	o.MasterCount = 1
}

func store(o *options.ServerRunOptions, cfg Config, keys *credentials.Keyring, storage storagebackend.TransportConfig) error {
	o.Etcd.StorageConfig.Transport = storage
	if cfg.ExternalEtcd != nil && cfg.ExternalEtcd.Prefix != "" {
		o.Etcd.StorageConfig.Prefix = cfg.ExternalEtcd.Prefix
	}
	switch {
	case cfg.Role != Hub:
		return nil
	case cfg.EncryptionConfig != "":
		return encryption.ApplyFile(o.Etcd, cfg.DataDir, cfg.EncryptionConfig, cfg.EncryptionConfigReload)
	default:
		return encryption.Apply(o.Etcd, cfg.DataDir, keys.EncryptionKeys(), cfg.PlainSecrets)
	}
}

// authorizers are the modes of authorization besides a webhook.
func authorizers(cfg Config) []string {
	if cfg.Role == Member && cfg.RuntimeConfig["resource.k8s.io/v1"] != "false" {
		return []string{"Node", "RBAC"}
	}
	return []string{"RBAC"}
}
