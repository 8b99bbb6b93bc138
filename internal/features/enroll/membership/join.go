package membership

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const (
	// DefaultTokenLifetime is how long a token is asked to live. It is renewed at a third of that, so a member may be
	// unreachable, or a control plane stopped, for 40 days at any time.
	DefaultTokenLifetime = 60 * 24 * time.Hour
	// acceptance is how long a member may take until new rights have effect.
	acceptance      = 10 * time.Second
	acceptancePause = 50 * time.Millisecond
	// leavingPatience is how long joining waits for the remains of an earlier membership to be gone.
	leavingPatience = 30 * time.Second
	leavingPause    = 250 * time.Millisecond
	// changes is how often a Cluster is changed that the control plane writes at the same time.
	changes = 10
	// requestTimeout bounds each request of a command to a cluster that may not answer at all.
	requestTimeout = 15 * time.Second
)

// Options say who joins.
type Options struct {
	// Name is the name of the new Cluster: a DNS label of at most 48 characters. Required.
	Name string
	// Labels, Provider, Region and Zones describe the Cluster to policies.
	Labels           map[string]string
	Provider, Region string
	Zones            []string
	// APIEndpoint is the https URL at which the control plane reaches the cluster. Default: that of the configuration.
	APIEndpoint string
	// ProxyURL is the proxy through which the control plane reaches the cluster.
	ProxyURL string
	// Notice is called with what a person should know although joining succeeds. May be nil.
	Notice func(message string)
	// Share joins a cluster that is a member of another control plane. Each keeps its own accounts and objects there.
	Share bool
	// TokenLifetime is how long tokens are asked to live. Default DefaultTokenLifetime.
	TokenLifetime time.Duration
	// Rights are what the control plane may do in the cluster. Default: what it may do there already, all rights at first.
	// With less than all, the Cluster has no proxy: its account could act as any user.
	Rights memberaccount.Rights
	// ApplyAs is the name of the ServiceAccount, in the namespace of each object, as which objects are written in the
	// cluster. Default: objects are written as the control plane's own account; a Cluster that has a name already keeps it.
	ApplyAs string
}

// Join makes the cluster that the second configuration leads to a member of the control plane that the first one leads
// to. The second needs the rights of an administrator, once: nothing of it is kept.
//
// A cluster that is a member already, under the same name, gets new credentials for the address of the configuration, which
// becomes the address of the Cluster, and is in Push mode afterwards; otherwise the Cluster is left as it is. It is
// refused if it is a member under another name, or if the name belongs to another cluster.
func Join(ctx context.Context, hub, member *rest.Config, o Options) error {
	hubClient, err := newHubClient(hub)
	if err != nil {
		return err
	}
	member = Direct(member)
	memberClient, err := kubernetes.NewForConfig(WithTimeout(member))
	if err != nil {
		return fmt.Errorf("building a client for the member: %w", err)
	}
	j := &Joiner{Hub: hubClient, Member: memberClient, Access: member, Options: o, Try: tryToken}
	if err := j.Join(ctx); err != nil {
		return err
	}
	found, err := findReleased(ctx, hubClient, WithTimeout(member), j.controlPlane)
	if err != nil {
		j.notice(fmt.Sprintf("it is not known which objects in the cluster the control plane released before: %v", err))
	}
	if text := found.text(); text != "" {
		j.notice(text)
	}
	return nil
}

func newHubClient(hub *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	c, err := client.New(WithTimeout(hub), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	return c, nil
}

// Direct is the way to a member without the proxy that the environment names: the control plane does not use that either. A
// proxy of the kubeconfig stays.
func Direct(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.Proxy == nil {
		cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return cfg
}

func WithTimeout(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	return cfg
}

// Joiner is one run of Join.
type Joiner struct {
	Hub     client.Client
	Member  kubernetes.Interface
	Access  *rest.Config
	Options Options
	// controlPlane is the id of the control plane.
	controlPlane string
	// Try checks that the member accepts a token.
	Try func(ctx context.Context, access *rest.Config, token string) error
}

// credentials are what the hub will hold. Without all rights there is no token of the impersonator.
type credentials struct{ controller, impersonator string }

func (j *Joiner) Join(ctx context.Context) error {
	if err := memberaccount.CheckName(j.Options.Name); err != nil {
		return err
	}
	if as := j.Options.ApplyAs; as != "" {
		if errs := clusterv1alpha1.ValidateApplyAs(map[string]string{clusterv1alpha1.ApplyAsAnnotation: as}); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	id, err := memberaccount.Identity(ctx, j.Member)
	if err != nil {
		return err
	}
	existing, err := j.present(ctx, id)
	if err != nil {
		return err
	}
	suffix, err := j.share(ctx, existing != nil)
	if err != nil {
		return err
	}
	controller := memberaccount.ControllerOf(j.Options.Name).Suffixed(suffix).Of(j.controlPlane)
	rights, err := j.rights(ctx, controller)
	if err != nil {
		return err
	}
	accounts := []memberaccount.Account{controller.With(rights)}
	if rights.All() {
		accounts = append(accounts, memberaccount.ImpersonatorOf().Suffixed(suffix).Of(j.controlPlane)) // with bounded rights there is no impersonation
	}
	tokens, err := j.prepareMember(ctx, accounts)
	if err != nil {
		return err
	}
	j.NoticeShortLife(tokens.controller)
	if err := j.Try(ctx, j.Access, tokens.controller); err != nil {
		return fmt.Errorf("the member does not accept the token that it issued: %w", err)
	}
	if existing != nil {
		return j.readmit(ctx, existing, tokens)
	}
	return j.admit(ctx, id, tokens)
}

// rights are those asked for. Joining again without a word about rights changes none.
func (j *Joiner) rights(ctx context.Context, controller memberaccount.Account) (memberaccount.Rights, error) {
	rights := j.Options.Rights
	if rights == nil {
		var err error
		if rights, err = controller.Granted(ctx, j.Member); err != nil {
			return nil, err
		}
	}
	if rights == nil {
		rights = memberaccount.AllRights()
	}
	if j.Options.ApplyAs != "" && !rights.All() {
		rights = rights.Merged(memberaccount.Rights{memberaccount.Impersonating(j.Options.ApplyAs)})
	}
	return rights, nil
}

// requestedLifetime is how long tokens are asked to live.
func (j *Joiner) requestedLifetime() time.Duration {
	return cmp.Or(j.Options.TokenLifetime, DefaultTokenLifetime)
}

// NoticeShortLife reports a member that limits the lifetime of tokens.
func (j *Joiner) NoticeShortLife(token string) {
	l, ok := memberaccount.LifeOf([]byte(token))
	if !ok || !memberaccount.MuchLess(l.Duration(), j.requestedLifetime()) {
		return
	}
	j.notice(fmt.Sprintf("the API server of the cluster limits service account tokens to %s (%s was requested; the flag is --service-account-max-token-expiration): "+
		"without a renewal token, the credentials expire when the cluster cannot be reached for %s", l.Duration(), j.requestedLifetime(), l.Duration()*2/3))
}

// readmit gives new credentials to a cluster that is a member already. They are for the address that was tried a moment ago,
// never for one that another client wrote into the Cluster in between, so the Cluster gets that address first.
func (j *Joiner) readmit(ctx context.Context, cluster *clusterv1alpha1.Cluster, tokens credentials) error {
	fresh, err := j.cluster(cluster.Spec.ID, tokens)
	if err != nil {
		return err
	}
	was := cluster.Spec.APIEndpoint
	cluster, err = j.change(ctx, cluster, func(c *clusterv1alpha1.Cluster) {
		to, from := &c.Spec, &fresh.Spec
		to.APIEndpoint, to.ProxyURL, to.InsecureSkipTLSVerification = from.APIEndpoint, from.ProxyURL, from.InsecureSkipTLSVerification
		to.SecretRef, to.ImpersonatorSecretRef = from.SecretRef, from.ImpersonatorSecretRef
		if account, ok := fresh.Annotations[clusterv1alpha1.ApplyAsAnnotation]; ok {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1alpha1.ApplyAsAnnotation, account)
		}
	})
	if err != nil {
		return fmt.Errorf("changing the address of cluster %q: %w", fresh.Name, err)
	}
	if is := cluster.Spec.APIEndpoint; is != was {
		j.notice(fmt.Sprintf("cluster %s is reached at %s from now on, before at %s; --api-endpoint sets another address than that of the kubeconfig",
			cluster.Name, is, was))
	}
	if tokens.impersonator == "" {
		if err := j.withdrawSecret(ctx, clusterv1alpha1.ImpersonatorSecretName(cluster.Name)); err != nil {
			return err
		}
	}
	if err := j.writeSecrets(ctx, tokens, cluster, cluster); err != nil || cluster.Spec.SyncMode == clusterv1alpha1.Push {
		return err
	}
	// Only now is everything there that the control plane needs to serve the cluster itself.
	if _, err := j.change(ctx, cluster, func(c *clusterv1alpha1.Cluster) { c.Spec.SyncMode = clusterv1alpha1.Push }); err != nil {
		return fmt.Errorf("changing the mode of cluster %q: %w", fresh.Name, err)
	}
	j.notice(fmt.Sprintf("cluster %s was in Pull mode and is in Push mode from now on; its agent ends", fresh.Name))
	return nil
}

// change changes a Cluster that was read some time ago and returns the result. The control plane writes the taints and the status of one that
// is not ready all the time: then it is read and changed again, but not if it is another one by now, or is reached in another way.
func (j *Joiner) change(ctx context.Context, cluster *clusterv1alpha1.Cluster, change func(*clusterv1alpha1.Cluster)) (*clusterv1alpha1.Cluster, error) {
	want := cluster.DeepCopy()
	change(want)
	_, err := hubclient.PatchLocked(ctx, j.Hub, cluster, want, client.FieldOwner(memberaccount.FieldManager))
	for tries := 1; apierrors.IsConflict(err) && tries < changes; tries++ {
		now := &clusterv1alpha1.Cluster{}
		if err := j.Hub.Get(ctx, client.ObjectKeyFromObject(cluster), now); err != nil {
			return nil, err
		}
		was, is := cluster.Spec.DeepCopy(), now.Spec.DeepCopy()
		was.Taints, is.Taints = nil, nil
		if now.UID != cluster.UID || !equality.Semantic.DeepEqual(was, is) {
			break
		}
		want = now.DeepCopy()
		change(want)
		_, err = hubclient.PatchLocked(ctx, j.Hub, now, want, client.FieldOwner(memberaccount.FieldManager))
	}
	return want, err
}

func (j *Joiner) notice(message string) {
	if j.Options.Notice != nil {
		j.Options.Notice(message)
	}
}

// present returns the Cluster if this very cluster is a member already, and nil if it may become one. It refuses another cluster under the
// same name, and the same cluster under another name. The latter the control plane compares itself when a Cluster is created: a list of all
// Clusters takes it a tenth of a second of CPU with a thousand of them.
func (j *Joiner) present(ctx context.Context, id string) (*clusterv1alpha1.Cluster, error) {
	c := &clusterv1alpha1.Cluster{}
	err := j.Hub.Get(ctx, client.ObjectKey{Name: j.Options.Name}, c)
	switch {
	case apierrors.IsNotFound(err):
		return nil, j.tryCluster(ctx, id)
	case err != nil:
		return nil, fmt.Errorf("reading cluster %q from the control plane: %w", j.Options.Name, err)
	case c.Spec.ID != id:
		return nil, fmt.Errorf("the name %q belongs to another cluster (id %q)", c.Name, c.Spec.ID)
	case c.DeletionTimestamp != nil:
		return nil, fmt.Errorf("cluster %q is just being removed; wait until it is gone", c.Name)
	}
	return c, nil
}

// tryCluster returns why the control plane would not accept the Cluster, before anything is written in the member.
func (j *Joiner) tryCluster(ctx context.Context, id string) error {
	cluster, err := j.cluster(id, credentials{})
	if err != nil {
		return err
	}
	if err := j.Hub.Create(ctx, cluster, client.DryRunAll, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return fmt.Errorf("the control plane does not accept the cluster: %w", err)
	}
	return nil
}

// prepareMember installs the accounts and takes a token of each.
func (j *Joiner) prepareMember(ctx context.Context, accounts []memberaccount.Account) (credentials, error) {
	var tokens [2]string
	for i, a := range accounts {
		if err := installPatiently(ctx, a, j.Member); err != nil {
			return credentials{}, err
		}
		token, err := a.Token(ctx, j.Member, j.requestedLifetime())
		if err != nil {
			return credentials{}, err
		}
		tokens[i] = token
	}
	// With bounded rights the control plane cannot create this Secret itself. Its token controller fills it; a cluster without
	// one works without.
	if _, err := accounts[0].RenewalSecret(ctx, j.Member); err != nil {
		j.notice(fmt.Sprintf("the control plane gets no renewal token: %v", err))
	}
	return credentials{controller: tokens[0], impersonator: tokens[1]}, nil
}

// installPatiently waits for a namespace that is still being deleted, as it is in a cluster that left a moment ago. It may go between two
// requests of Install, which only creates: what is not found then is the namespace.
func installPatiently(ctx context.Context, a memberaccount.Account, member kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, leavingPause, leavingPatience, true, func(ctx context.Context) (bool, error) {
		last = a.Install(ctx, member)
		if apierrors.HasStatusCause(last, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(last) {
			return false, nil
		}
		return last == nil, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// admit writes the Secrets first, so that the Cluster is usable from its first moment, and has it own them afterwards.
func (j *Joiner) admit(ctx context.Context, id string, tokens credentials) error {
	cluster, err := j.cluster(id, tokens)
	if err != nil {
		return err
	}
	err = j.writeSecrets(ctx, tokens, cluster, nil)
	if err == nil {
		if err = j.Hub.Create(ctx, cluster, client.FieldOwner(memberaccount.FieldManager)); err != nil {
			err = fmt.Errorf("creating cluster %q: %w", j.Options.Name, err)
		}
	}
	if err != nil {
		return errors.Join(err, j.withdraw(ctx))
	}
	return j.writeSecrets(ctx, tokens, cluster, cluster)
}

func (j *Joiner) cluster(id string, tokens credentials) (*clusterv1alpha1.Cluster, error) {
	o := j.Options
	endpoint, err := endpointOf(cmp.Or(o.APIEndpoint, j.Access.Host))
	if err != nil {
		return nil, err
	}
	ref := func(name string) *clusterv1alpha1.LocalSecretReference {
		return &clusterv1alpha1.LocalSecretReference{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}
	}
	cluster := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels, Finalizers: []string{clusterv1alpha1.ClusterFinalizer}},
		Spec: clusterv1alpha1.ClusterSpec{
			ID: id, SyncMode: clusterv1alpha1.Push, APIEndpoint: endpoint, ProxyURL: o.ProxyURL,
			SecretRef:                   ref(o.Name),
			InsecureSkipTLSVerification: j.Access.Insecure,
			Provider:                    o.Provider, Region: o.Region, Zones: o.Zones,
		},
	}
	if tokens.impersonator != "" {
		cluster.Spec.ImpersonatorSecretRef = ref(clusterv1alpha1.ImpersonatorSecretName(o.Name))
	}
	if o.ApplyAs != "" {
		cluster.Annotations = map[string]string{clusterv1alpha1.ApplyAsAnnotation: o.ApplyAs}
	}
	return cluster, nil
}

// endpointOf is an address as a URL.
func endpointOf(address string) (string, error) {
	host := address
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" || u.Scheme != "https" {
		return "", fmt.Errorf("the member's address %q is no https URL", address)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// writeSecrets creates or changes both Secrets, for the address of a Cluster; owner is nil as long as that does not exist.
func (j *Joiner) writeSecrets(ctx context.Context, tokens credentials, target, owner *clusterv1alpha1.Cluster) error {
	if err := j.ensureNamespace(ctx); err != nil {
		return err
	}
	main := map[string][]byte{clusterv1alpha1.SecretTokenKey: []byte(tokens.controller)}
	var ca []byte
	if len(j.Access.CAData) > 0 && !j.Access.Insecure {
		ca = j.Access.CAData
		main[clusterv1alpha1.SecretCADataKey] = ca
	}
	other := map[string][]byte{clusterv1alpha1.SecretTokenKey: []byte(tokens.impersonator)}
	for _, c := range []struct {
		name string
		use  clusterv1alpha1.CredentialUse
		data map[string][]byte
	}{
		{j.Options.Name, clusterv1alpha1.ControllerCredential, main},
		{clusterv1alpha1.ImpersonatorSecretName(j.Options.Name), clusterv1alpha1.ImpersonatorCredential, other},
	} {
		if len(c.data[clusterv1alpha1.SecretTokenKey]) == 0 {
			continue
		}
		err := j.writeSecret(ctx, c.name, func(secret *corev1.Secret) {
			renewal := secret.Data[clusterv1alpha1.SecretRenewalTokenKey]
			// Written a moment ago, before there was a Cluster to own it: the control plane may have added the renewal token since then.
			added := len(secret.OwnerReferences) == 0 && bytes.Equal(secret.Data[clusterv1alpha1.SecretTokenKey], c.data[clusterv1alpha1.SecretTokenKey])
			secret.Data = maps.Clone(c.data)
			if added && len(renewal) > 0 {
				secret.Data[clusterv1alpha1.SecretRenewalTokenKey] = renewal
			}
			StampSecret(secret, c.use, &target.Spec, ca)
			secret.Annotations[clusterv1alpha1.TokenLifetimeAnnotation] = j.requestedLifetime().String()
			if owner != nil {
				secret.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: "Cluster", Name: owner.Name, UID: owner.UID,
				}}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSecret reads a Secret and writes it, again if the control plane wrote it in between: it adds the renewal token as soon as there is a
// Cluster, and renews what the member refuses.
func (j *Joiner) writeSecret(ctx context.Context, name string, edit func(*corev1.Secret)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		secret := &corev1.Secret{}
		err := j.Hub.Get(ctx, client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		before := secret.DeepCopy()
		secret.Namespace, secret.Name = clusterv1alpha1.ClusterNamespace, name
		edit(secret)
		switch {
		case apierrors.IsNotFound(err):
			return j.Hub.Create(ctx, secret, client.FieldOwner(memberaccount.FieldManager))
		case equality.Semantic.DeepEqual(before, secret):
			return nil
		}
		return j.Hub.Update(ctx, secret, client.FieldOwner(memberaccount.FieldManager))
	})
	if err != nil {
		return fmt.Errorf("writing the Secret %s: %w", name, err)
	}
	return nil
}

func (j *Joiner) ensureNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   clusterv1alpha1.ClusterNamespace,
		Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
	}}
	err := j.Hub.Get(ctx, client.ObjectKeyFromObject(ns), &corev1.Namespace{})
	if apierrors.IsNotFound(err) {
		err = j.Hub.Create(ctx, ns, client.FieldOwner(memberaccount.FieldManager))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making sure of the namespace %s: %w", ns.Name, err)
	}
	return nil
}

// withdraw removes the Secrets of a Cluster that could not be created.
func (j *Joiner) withdraw(ctx context.Context) error {
	var faults []error
	for _, name := range []string{j.Options.Name, clusterv1alpha1.ImpersonatorSecretName(j.Options.Name)} {
		faults = append(faults, j.withdrawSecret(ctx, name))
	}
	return errors.Join(faults...)
}

func (j *Joiner) withdrawSecret(ctx context.Context, name string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}}
	if err := client.IgnoreNotFound(j.Hub.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("removing the Secret %s: %w", name, err)
	}
	return nil
}

// tryToken uses a new token until the member honours it: rights that were just granted take a moment.
func tryToken(ctx context.Context, access *rest.Config, token string) error {
	cfg := rest.AnonymousClientConfig(WithTimeout(access))
	cfg.BearerToken = token
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, acceptancePause, acceptance, true, func(ctx context.Context) (bool, error) {
		_, last = c.CoreV1().Namespaces().Get(ctx, memberaccount.KubeSystem, metav1.GetOptions{})
		if last == nil || apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) {
			return last == nil, nil
		}
		return false, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// share decides under which names this control plane joins a member, and refuses one that others hold unless the options allow that.
func (j *Joiner) share(ctx context.Context, known bool) (string, error) {
	id, err := memberaccount.ControlPlaneID(ctx, j.Hub)
	if err != nil {
		return "", err
	}
	j.controlPlane = id
	return Holding{Cluster: j.Options.Name, ControlPlane: id, Known: known, Share: j.Options.Share}.Suffix(ctx, j.Member)
}

// StampSecret notes on a Secret for which address and trust its credential was issued.
func StampSecret(secret *corev1.Secret, use clusterv1alpha1.CredentialUse, spec *clusterv1alpha1.ClusterSpec, ca []byte) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[clusterv1alpha1.CredentialForAnnotation] = clusterv1alpha1.CredentialDigest(use, spec, ca)
}
