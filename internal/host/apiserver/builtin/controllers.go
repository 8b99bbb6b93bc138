package builtin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/namespace"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	// namespaceResync looks again at namespaces that are being deleted.
	namespaceResync = 5 * time.Minute
	// certificateLife is how long a signed client certificate is valid unless its request is for less.
	certificateLife = 365 * 24 * time.Hour
	// Workers per controller: these loops have little to do.
	namespaceWorkers = 5
	fewWorkers       = 2
)

// Config is what the controllers need.
type Config struct {
	// Client is a configuration with all rights on the hub.
	Client *rest.Config
	// Informers are those of the API server itself: what it watches anyway is not watched twice. StartInformers starts those that do not run
	// yet, until the server ends.
	Informers      informers.SharedInformerFactory
	StartInformers func()
	// NativeInformer makes an informer of a kind whose storage is in this process, nil for any other. Its objects share their memory with the
	// storage, and are not to be changed. It is a function because the storage belongs to the server that runs the controllers.
	NativeInformer func(schema.GroupResource) cache.SharedIndexInformer
	// AuthorityCert and AuthorityKey are files of the authority that signs client certificates.
	AuthorityCert, AuthorityKey string
	// TokenKey is the file of the key that signs service account tokens.
	TokenKey string
	// BootstrapTokens runs the controllers of bootstrap tokens.
	BootstrapTokens bool
	// CA is put into token Secrets so that their users can verify the hub.
	CA []byte
	// InUse returns, from memory, whether there may be objects of a resource, and Holds whether there are at this moment. What
	// is not in use is left alone.
	InUse, Holds func(context.Context, schema.GroupResource) bool
	// StoredVersion returns the version in which objects of a resource are stored, if a webhook makes the others of it; empty for any other
	// resource.
	StoredVersion func(schema.GroupResource) string
	// OnUse has a function called when the result of InUse may have changed.
	OnUse func(func())
}

// Loop is a controller that can be run.
type Loop struct {
	// Name shows in /readyz and in the user agent.
	Name string
	// Run blocks until the context ends.
	Run func(context.Context)
}

// Names are the names of all loops, for those who must speak of them before they run.
func Names(bootstrapTokens bool) []string {
	names := []string{
		"namespace-controller", "garbage-collector", "service-account-token-controller",
		"cluster-role-aggregation-controller",
		"csr-signing-controller", "csr-cleaner", "pod-deletion-controller",
		"serviceaccount-controller", "root-ca-certificate-publisher-controller",
		"validatingadmissionpolicy-status-controller",
	}
	if bootstrapTokens {
		names = append(names, bootstrapSigner, tokenCleaner)
	}
	return names
}

const (
	bootstrapSigner = "bootstrap-signer"
	tokenCleaner    = "token-cleaner"
)

// builder collects loops and the informers they need.
type builder struct {
	cfg   Config
	loops []Loop
	// public are the informers for the one ConfigMap that is signed for joining clusters: an informer
	// for all of them would hold every ConfigMap that is a template.
	public informers.SharedInformerFactory
	// authorities are the informers for the ConfigMap of each namespace with the certificate authority of the hub.
	authorities informers.SharedInformerFactory
}

// Controllers are the built-in controllers of a hub.
type Controllers struct {
	// Loops run once StartInformers was called.
	Loops   []Loop
	builder *builder
}

// StartInformers starts the informers of the controllers: their own until the context ends.
func (c Controllers) StartInformers(ctx context.Context) {
	c.builder.cfg.StartInformers()
	c.builder.public.Start(ctx.Done())
	c.builder.authorities.Start(ctx.Done())
}

// AwaitInformers returns when the informers have ended that only the controllers use.
func (c Controllers) AwaitInformers() {
	c.builder.public.Shutdown()
	c.builder.authorities.Shutdown()
}

// New builds the controllers.
func New(ctx context.Context, cfg Config) (Controllers, error) {
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(cfg.Client, "builtin-controllers"))
	if err != nil {
		return Controllers{}, fmt.Errorf("making the client of built-in controllers: %w", err)
	}
	b := &builder{cfg: cfg, public: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("kube-public"))}
	steps := []func(context.Context) error{
		b.namespaces, b.garbage, b.tokens, b.roles, b.certificates, b.pods, b.defaults, b.policies,
	}
	if cfg.BootstrapTokens {
		steps = append(steps, b.bootstrap)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return Controllers{}, err
		}
	}
	return Controllers{b.loops, b}, nil
}

func (b *builder) client(name string) (*rest.Config, kubernetes.Interface, error) {
	config := rest.AddUserAgent(b.cfg.Client, name)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of %s: %w", name, err)
	}
	return config, client, nil
}

// clients are client, and one that reads the metadata of objects of any kind.
func (b *builder) clients(name string) (kubernetes.Interface, metadata.Interface, error) {
	config, client, err := b.client(name)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("making the client of %s: %w", name, err)
	}
	return client, objects, nil
}

func (b *builder) add(name string, run func(context.Context)) {
	b.loops = append(b.loops, Loop{Name: name, Run: run})
}

func (b *builder) namespaces(ctx context.Context) error {
	const name = "namespace-controller"
	client, objects, err := b.clients(name)
	if err != nil {
		return err
	}
	controller := namespace.NewNamespaceController(ctx, client, objects,
		func() ([]*metav1.APIResourceList, error) {
			lists, err := everything{client.Discovery()}.ServerPreferredNamespacedResources()
			return inStoredVersion(only(ctx, lists, b.cfg.Holds), b.cfg.StoredVersion), err
		},
		b.cfg.Informers.Core().V1().Namespaces(), namespaceResync, corev1.FinalizerKubernetes)
	b.add(name, func(ctx context.Context) { controller.Run(ctx, namespaceWorkers) })
	return nil
}

func (b *builder) tokens(ctx context.Context) error {
	const name = "service-account-token-controller"
	_, client, err := b.client(name)
	if err != nil {
		return err
	}
	key, err := keyutil.PrivateKeyFromFile(b.cfg.TokenKey)
	if err != nil {
		return fmt.Errorf("reading the service account key: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return fmt.Errorf("making the token generator: %w", err)
	}
	controller, err := serviceaccountcontroller.NewTokensController(klog.FromContext(ctx),
		b.cfg.Informers.Core().V1().ServiceAccounts(), b.cfg.Informers.Core().V1().Secrets(), client,
		serviceaccountcontroller.TokensControllerOptions{TokenGenerator: generator, RootCA: b.cfg.CA})
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	b.add(name, func(ctx context.Context) { controller.Run(ctx, fewWorkers) })
	return nil
}

func (b *builder) roles(context.Context) error {
	const name = "cluster-role-aggregation-controller"
	_, client, err := b.client(name)
	if err != nil {
		return err
	}
	controller := clusterroleaggregation.NewClusterRoleAggregation(b.cfg.Informers.Rbac().V1().ClusterRoles(), client.RbacV1())
	b.add(name, func(ctx context.Context) { controller.Run(ctx, fewWorkers) })
	return nil
}

func (b *builder) bootstrap(context.Context) error {
	_, client, err := b.client(bootstrapSigner)
	if err != nil {
		return err
	}
	secrets := b.cfg.Informers.Core().V1().Secrets()
	signing, err := bootstrap.NewSigner(client, secrets, b.public.Core().V1().ConfigMaps(), bootstrap.DefaultSignerOptions())
	if err != nil {
		return fmt.Errorf("making %s: %w", bootstrapSigner, err)
	}
	cleaning, err := bootstrap.NewTokenCleaner(client, secrets, bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return fmt.Errorf("making %s: %w", tokenCleaner, err)
	}
	b.add(bootstrapSigner, signing.Run)
	b.add(tokenCleaner, cleaning.Run)
	return nil
}

func (b *builder) certificates(ctx context.Context) error {
	const name = "csr-signing-controller"
	_, client, err := b.client(name)
	if err != nil {
		return err
	}
	requests := b.cfg.Informers.Certificates().V1().CertificateSigningRequests()
	signing, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, client, requests,
		b.cfg.AuthorityCert, b.cfg.AuthorityKey, certificateLife)
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	cleaning := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests)
	b.add(name, func(ctx context.Context) { signing.Run(ctx, fewWorkers) })
	b.add("csr-cleaner", func(ctx context.Context) { cleaning.Run(ctx, 1) })
	return nil
}
