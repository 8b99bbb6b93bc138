package builtin

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// defaults gives each namespace the ServiceAccount "default" and the ConfigMap "kube-root-ca.crt", as clients of any cluster expect.
// Members make their own; package hubstore excludes both from what is propagated.
func (b *builder) defaults(ctx context.Context) error {
	const accountsName, publisherName = "serviceaccount-controller", "root-ca-certificate-publisher-controller"
	_, client, err := b.client(accountsName)
	if err != nil {
		return err
	}
	namespaces := b.cfg.Informers.Core().V1().Namespaces()
	accounts, err := serviceaccountcontroller.NewServiceAccountsController(klog.FromContext(ctx), b.cfg.Informers.Core().V1().ServiceAccounts(),
		namespaces, client, serviceaccountcontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return fmt.Errorf("making %s: %w", accountsName, err)
	}
	if _, client, err = b.client(publisherName); err != nil {
		return err
	}
	// An informer for all ConfigMaps would hold those that are templates.
	b.authorities = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, rootcacertpublisher.RootCACertConfigMapName).String()
	}))
	publisher, err := rootcacertpublisher.NewPublisher(b.authorities.Core().V1().ConfigMaps(), namespaces, client, b.cfg.CA)
	if err != nil {
		return fmt.Errorf("making %s: %w", publisherName, err)
	}
	b.add(accountsName, func(ctx context.Context) { accounts.Run(ctx, fewWorkers) })
	b.add(publisherName, func(ctx context.Context) { publisher.Run(ctx, fewWorkers) })
	return nil
}
