package apiserver

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// issuer names the signer of service account tokens; servers that share one etcd share it.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// watchDrain is how long a stopping server lets watches end on their own.
	watchDrain = 2 * time.Second
	// hangUp is how long it waits for clients that keep a connection open.
	hangUp = 2 * time.Second
	// eventLife is how long an Event is kept.
	eventLife = time.Hour
)

// build turns the config into upstream's options, with every file they name in place.
func build(ctx context.Context, cfg Config, keys *keyring, listener net.Listener, storage storagebackend.TransportConfig) (options.CompletedOptions, error) {
	if err := settleGates(); err != nil {
		return options.CompletedOptions{}, err
	}
	o := options.NewServerRunOptions()
	if err := authenticate(o, cfg, keys); err != nil {
		return options.CompletedOptions{}, err
	}
	if err := store(o, cfg, keys, storage); err != nil {
		return options.CompletedOptions{}, err
	}
	if err := audit(o, cfg); err != nil {
		return options.CompletedOptions{}, err
	}
	serve(o, cfg, keys, listener)
	if cfg.Role == Hub {
		// There is no network of cluster IPs here: webhooks behind a Service are called at its endpoints.
		o.EnableAggregatorRouting = true
		o.SystemNamespaces = []string{
			metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
			clusterv1alpha1.SystemNamespace, clusterv1alpha1.ClusterNamespace,
		}
	}
	admit(o, cfg)
	o.APIEnablement.RuntimeConfig = cfg.RuntimeConfig
	authorize(o, cfg)
	o.AllowPrivileged = cfg.Role == Member
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

func serve(o *options.ServerRunOptions, cfg Config, keys *keyring, listener net.Listener) {
	o.SecureServing.Listener = listener
	o.SecureServing.ServerCert.CertKey.CertFile = keys.dir.File(servingName + ".crt")
	o.SecureServing.ServerCert.CertKey.KeyFile = keys.dir.File(servingName + ".key")
	o.GenericServerRunOptions.AdvertiseAddress = net.ParseIP(cfg.AdvertiseAddress)
	o.GenericServerRunOptions.ExternalHost = cfg.AdvertiseAddress
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchDrain
	o.Features.EnableProfiling = cfg.Profiling
	o.Features.EnableContentionProfiling = false
	o.ServiceClusterIPRanges = cfg.ServiceCIDR
	o.EventTTL = eventLife
	// Nothing in these clusters reaches the API server through the kubernetes Service.
	o.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
	// More than one would hold back every new CustomResourceDefinition for five seconds.
	o.MasterCount = 1
}

func store(o *options.ServerRunOptions, cfg Config, keys *keyring, storage storagebackend.TransportConfig) error {
	o.Etcd.StorageConfig.Transport = storage
	if cfg.ExternalEtcd != nil && cfg.ExternalEtcd.Prefix != "" {
		o.Etcd.StorageConfig.Prefix = cfg.ExternalEtcd.Prefix
	}
	if cfg.Role != Hub {
		return nil
	}
	return encrypt(o, cfg, keys)
}

// hubPlugins are the built-in admission plugins a hub needs. The others change or refuse objects for
// the sake of the cluster they are stored in, but a hub's objects are meant for other clusters.
func hubPlugins() sets.Set[string] {
	return sets.New(
		"NamespaceLifecycle",
		"MutatingAdmissionPolicy",
		"MutatingAdmissionWebhook",
		"ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook",
		"CertificateApproval",
		"CertificateSigning",
		"CertificateSubjectRestriction",
		"ClusterTrustBundleAttest",
	)
}
