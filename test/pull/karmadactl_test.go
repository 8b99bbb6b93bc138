package pull_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/client-go/util/retry"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	kay       = "kay" // the cluster that karmadactl registers
	registrar = "system:karmada:agent:rbac-generator"
)

// registersWithKarmadactl makes the requests that karmadactl register 1.12 to 1.16 makes, in their order, then those of karmada-agent, and
// tries with every identity on the way what it is not for. At the end the Cluster is deleted; the function that is returned waits until it
// is gone and checks that nothing of the registration is of use for a later one.
func registersWithKarmadactl(t *testing.T, hub *fleettest.Part) (isOver func(*testing.T)) {
	line := fleettest.Flagship(t, "token", "create", kay, "--print-register-command", "--kubeconfig", hub.Kubeconfig, "--server", hub.Config.Host)
	if line.Code != 0 {
		t.Fatal(line.Stderr)
	}
	words := strings.Fields(line.Stdout)
	flags := map[string]string{}
	for i := 3; i+1 < len(words); i += 2 {
		flags[words[i]] = words[i+1]
	}
	if len(words) != 9 || words[0] != "karmadactl" || words[1] != "register" || flags["--cluster-name"] != kay {
		t.Fatalf("the command is %q", line.Stdout)
	}
	token := flags["--token"]
	trusted := discover(t, words[2], token, flags["--discovery-token-ca-cert-hash"])

	bootstrap := rest.CopyConfig(trusted)
	bootstrap.BearerToken = token
	withToken := reach(t, hub, bootstrap)
	fleettest.Eventually(t, "the rights of a new token", func() bool {
		return apierrors.IsNotFound(withToken.Get(t.Context(), client.ObjectKey{Name: kay}, &clusterv1alpha1.Cluster{}))
	})
	for name, signer := range map[string]string{"system:node:kay": certificatesv1.KubeAPIServerClientKubeletSignerName, "system:karmada:agent:far": certificatesv1.KubeAPIServerClientSignerName} {
		_, request := newRequest(t, "refused", name, signer)
		if err := withToken.Create(t.Context(), request); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "1.12") && !strings.Contains(err.Error(), `"kay" only`) {
			t.Errorf("a certificate for %s is not refused at once: %v", name, err)
		}
	}

	prepare(t, hub, trusted, withToken)

	identity := obtain(t, trusted, withToken, kay+"-zzzzz", "system:karmada:agent:"+kay)
	agent := reach(t, hub, identity)
	renewed := runsAsKarmadaAgent(t, hub, trusted, agent)
	return func(t *testing.T) { endsWithItsCluster(t, hub, token, agent, renewed) }
}

// discover reads the ConfigMap cluster-info without a credential, first without a check of the server, and returns how the server is
// reached with one.
func discover(t *testing.T, endpoint, token, pin string) *rest.Config {
	t.Helper()
	read := func(tls rest.TLSClientConfig) string {
		t.Helper()
		public := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + endpoint, TLSClientConfig: tls}).CoreV1().ConfigMaps("kube-public")
		info, err := public.Get(t.Context(), bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("reading cluster-info without a credential: %v", err)
		}
		if _, err := public.Get(t.Context(), "other", metav1.GetOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("another ConfigMap is read without a credential: %v", err)
		}
		id, secret, _ := strings.Cut(token, ".")
		content := info.Data[bootstrapapi.KubeConfigKey]
		if !jws.DetachedTokenIsValid(info.Data[bootstrapapi.JWSSignatureKeyPrefix+id], content, id, secret) {
			t.Fatal("cluster-info is not signed with the token")
		}
		return content
	}
	content := read(rest.TLSClientConfig{Insecure: true})
	config, err := clientcmd.Load([]byte(content))
	if err != nil || len(config.Clusters) != 1 || len(config.AuthInfos) != 0 {
		t.Fatalf("cluster-info holds %s: %v", content, err)
	}
	for _, cluster := range config.Clusters {
		authorities, err := cert.ParseCertsPEM(cluster.CertificateAuthorityData)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(authorities, func(c *x509.Certificate) bool {
			sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
			return "sha256:"+hex.EncodeToString(sum[:]) == pin
		}) {
			t.Error("the certificate authority has not the hash of the command")
		}
		trusted := &rest.Config{Host: "https://" + endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CertificateAuthorityData}}
		if read(trusted.TLSClientConfig) != content {
			t.Error("cluster-info differs over a connection with a check of the server")
		}
		return trusted
	}
	return nil
}

// reach is the control plane as a client with an identity reaches it.
func reach(t *testing.T, hub *fleettest.Part, config *rest.Config) *fleettest.Cluster {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: hub.Scheme(), Mapper: hub.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	watches, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &fleettest.Cluster{WithWatch: c, Name: "hub", Config: config, Dynamic: watches}
}

// newRequest is the request of a certificate as karmadactl makes it, with its key.
func newRequest(t *testing.T, name, user, signer string) ([]byte, *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{"system:karmada:agents"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return encoded, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karmada.io/system": "true"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, ExpirationSeconds: new(int32(86400 * 365)),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
		},
	}
}

// obtain requests a certificate and returns how the control plane is reached with it.
func obtain(t *testing.T, trusted *rest.Config, by *fleettest.Cluster, name, user string) *rest.Config {
	t.Helper()
	key, request := newRequest(t, name, user, certificatesv1.KubeAPIServerClientSignerName)
	if err := by.Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	issued := fleettest.ExpectEventually(t, by, request, func(r *certificatesv1.CertificateSigningRequest) error {
		if len(r.Status.Certificate) == 0 {
			return fmt.Errorf("it is not issued: %v", r.Status.Conditions)
		}
		return nil
	})
	config := rest.CopyConfig(trusted)
	config.CertData, config.KeyData = issued.Status.Certificate, key
	return config
}

// prepare creates what karmadactl creates for an agent before it has a certificate, with a certificate that is for nothing else.
func prepare(t *testing.T, hub *fleettest.Part, trusted *rest.Config, withToken *fleettest.Cluster) {
	const request = "agent-rbac-generator-" + kay + "zzzzz"
	identity := obtain(t, trusted, withToken, request, registrar)
	karmadactl := reach(t, hub, identity)
	if err := karmadactl.Get(t.Context(), client.ObjectKey{Name: kay}, &clusterv1alpha1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Fatalf("whether the Cluster exists: %v", err)
	}
	expectRights(t, hub, identity, "create namespaces", "create clusterroles", "create clusterrolebindings",
		"create karmada-cluster/roles", "create karmada-cluster/rolebindings")

	wide := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:karmada:agent:" + kay}}
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	to := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	const role, secrets, works = "system:karmada:kay:agent", "system:karmada:kay:agent-secret", "system:karmada:kay:agent-work"
	clusterRole := &rbacv1.ClusterRole{ObjectMeta: in("", role), Rules: wide}
	objects := []client.Object{
		clusterRole,
		&rbacv1.ClusterRoleBinding{ObjectMeta: in("", role), Subjects: subjects, RoleRef: to("ClusterRole", role)},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-cluster", Labels: map[string]string{"karmada.io/system": "true"}}},
		&rbacv1.Role{ObjectMeta: in("karmada-cluster", secrets), Rules: wide},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-kay", Labels: map[string]string{"karmada.io/system": "true"}}},
		&rbacv1.Role{ObjectMeta: in("karmada-es-kay", works), Rules: wide},
		&rbacv1.RoleBinding{ObjectMeta: in("karmada-cluster", secrets), Subjects: subjects, RoleRef: to("Role", secrets)},
		&rbacv1.RoleBinding{ObjectMeta: in("karmada-es-kay", works), Subjects: subjects, RoleRef: to("Role", works)},
	}
	for _, object := range objects {
		if err := karmadactl.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(clusterRole), clusterRole); err != nil || len(clusterRole.Rules) > 0 {
		t.Errorf("karmadactl has stored the rules %v: %v", clusterRole.Rules, err)
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: in("", "system:karmada:far:agent")},
		&rbacv1.ClusterRole{ObjectMeta: in("", "aggregated"), AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: in("", "wide"), Subjects: subjects, RoleRef: to("ClusterRole", "cluster-admin")},
		&rbacv1.Role{ObjectMeta: in("karmada-es-far", "system:karmada:far:agent-work")},
		&corev1.Namespace{ObjectMeta: in("", "karmada-es-far2")},
		&corev1.Namespace{ObjectMeta: in("", "other")},
		&clusterv1alpha1.Cluster{ObjectMeta: in("", kay), Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}},
	} {
		if err := karmadactl.Create(t.Context(), object); !apierrors.IsForbidden(err) {
			t.Errorf("karmadactl creates %T %s: %v", object, object.GetName(), err)
		}
	}
	admins := &rbacv1.ClusterRoleBinding{ObjectMeta: in("", role)}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(admins), admins); err != nil || len(admins.Subjects) > 0 {
		t.Errorf("karmadactl has bound %v: %v", admins.Subjects, err)
	}
	mine := &certificatesv1.CertificateSigningRequest{ObjectMeta: in("", request)}
	if err := karmadactl.Delete(t.Context(), mine); err != nil {
		t.Fatalf("deleting its request: %v", err)
	}
	// A later failure would delete the roles. That is refused, as everything else from now on.
	if err := karmadactl.Delete(t.Context(), clusterRole); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the certificate is of use after its request is gone: %v", err)
	}
}

// runsAsKarmadaAgent makes the requests of karmada-agent, as far as they reach the control plane. It returns the agent with its renewed
// certificate.
func runsAsKarmadaAgent(t *testing.T, hub *fleettest.Part, trusted *rest.Config, agent *fleettest.Cluster) *fleettest.Cluster {
	ctx := t.Context()
	clusters := &clusterv1alpha1.ClusterList{}
	if err := agent.List(ctx, clusters); err != nil || len(clusters.Items) > 0 {
		t.Fatalf("it lists %d Clusters before there is its own: %v", len(clusters.Items), err)
	}
	if err := agent.Get(ctx, client.ObjectKey{Name: clusterv1alpha1.ClusterNamespace}, &corev1.Namespace{}); err != nil {
		t.Fatal(err)
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}
	}
	impersonator := &corev1.Secret{ObjectMeta: meta(kay + "-impersonator"), Data: map[string][]byte{"token": []byte("t")}}
	credentials := &corev1.Secret{ObjectMeta: meta(kay), Data: map[string][]byte{"token": []byte("t"), "caBundle": []byte("c")}}
	for _, secret := range []*corev1.Secret{impersonator, credentials} { // as every object that Karmada writes for itself
		secret.Labels = map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue}
	}
	left := &corev1.Secret{ObjectMeta: meta(kay), Data: map[string][]byte{"token": []byte("of an earlier member")}}
	fleettest.Create(t, hub.Cluster, left)
	if err := agent.Get(ctx, client.ObjectKeyFromObject(left), &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads the credential of an earlier Cluster of the name: %v", err)
	}
	fleettest.Delete(t, hub.Cluster, left)
	fleettest.Create(t, agent, impersonator, credentials)
	stolen := &corev1.Secret{ObjectMeta: meta("far-impersonator")}
	if err := agent.Create(ctx, stolen); !apierrors.IsForbidden(err) {
		t.Errorf("it writes a Secret of another cluster: %v", err)
	}
	spec := clusterv1alpha1.ClusterSpec{
		SyncMode: clusterv1alpha1.Pull, ID: "the-member-of-karmadactl", APIEndpoint: "https://10.0.0.1:6443", Region: "eu",
		SecretRef:             &clusterv1alpha1.LocalSecretReference{Namespace: clusterv1alpha1.ClusterNamespace, Name: kay},
		ImpersonatorSecretRef: &clusterv1alpha1.LocalSecretReference{Namespace: clusterv1alpha1.ClusterNamespace, Name: kay + "-impersonator"},
	}
	other := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far2"}, Spec: spec}
	if err := agent.Create(ctx, other); !apierrors.IsForbidden(err) {
		t.Errorf("it creates another Cluster: %v", err)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: kay, Annotations: map[string]string{"flagship.io/apply-as": "root"}}, Spec: spec}
	if err := agent.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	if s := cluster.Spec; s.SecretRef != nil || s.ImpersonatorSecretRef != nil || s.APIEndpoint != "" || s.Region != "eu" || len(cluster.Annotations) != 1 {
		t.Errorf("its Cluster is %v %+v", cluster.Annotations, s)
	}
	owner := fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":"cluster.karmada.io/v1alpha1","kind":"Cluster","name":%q,"uid":%q,"controller":true,"blockOwnerDeletion":true}]}}`, kay, cluster.UID)
	for _, secret := range []*corev1.Secret{impersonator, credentials} {
		if err := agent.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", owner)); err != nil || len(secret.Data) > 0 || len(secret.OwnerReferences) != 1 {
			t.Errorf("its Secret %s is %v, owned by %v: %v", secret.Name, secret.Data, secret.OwnerReferences, err)
		}
	}
	// At a restart it writes its spec again, and what it does not have stays as it is.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the control plane writes it, too
		if err := agent.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		cluster.Spec, cluster.Annotations = spec, map[string]string{"flagship.io/on-removal": "DeleteObjects"}
		return agent.Update(ctx, cluster)
	})
	if err != nil || cluster.Spec.SecretRef != nil || len(cluster.Annotations) != 1 || cluster.Annotations["flagship.io/on-removal"] != "" {
		t.Errorf("it has changed its Cluster to %v %+v: %v", cluster.Annotations, cluster.Spec, err)
	}

	listsItselfOnly(t, hub, agent)
	for _, list := range []client.ObjectList{&configv1alpha1.ResourceInterpreterCustomizationList{}, &configv1alpha1.ResourceInterpreterWebhookConfigurationList{}} {
		if err := agent.List(ctx, list); err != nil {
			t.Error(err)
		}
	}
	election := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.SystemNamespace, Name: "karmada-agent-" + kay}}
	elected := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: clusterv1alpha1.SystemNamespace, Name: "karmada-agent-kay.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Lease", Namespace: clusterv1alpha1.SystemNamespace, Name: election.Name},
	}
	synced := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kay.1"}, InvolvedObject: corev1.ObjectReference{Kind: "Cluster", Name: kay}}
	lease := &coordinationv1.Lease{ObjectMeta: meta(kay)}
	fleettest.Create(t, agent, election, elected, synced, lease)
	if err := errors.Join(agent.Update(ctx, election), agent.Patch(ctx, synced, client.RawPatch("application/strategic-merge-patch+json", []byte(`{"count":2}`)))); err != nil {
		t.Error(err)
	}

	a := stand(t, agent)
	t.Cleanup(func() { a.fallSilent() })
	a.live()
	web, work := deploy(t, hub.Cluster, a)
	fleettest.Update(t, agent, work, func(w *workv1alpha1.Work) { controllerutil.AddFinalizer(w, workv1alpha1.ExecutionFinalizer) })
	a.run(work, 2)
	fleettest.ExpectEventually(t, hub.Cluster, web, currency(""))
	expectRights(t, hub, agent.Config, "create get list watch certificatesigningrequests", "list watch clusters", "list watch services",
		"get list watch resourceinterpretercustomizations", "get list watch resourceinterpreterwebhookconfigurations",
		"create karmada-cluster/leases", "create karmada-cluster/secrets")

	// A renewed certificate is listed in the Cluster.
	renewed := reach(t, hub, obtain(t, trusted, agent, kay+"-yyyyy", "system:karmada:agent:"+kay))
	fleettest.ExpectEventually(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) error {
		if len(strings.Split(c.Annotations[clusterv1alpha1.AgentCredentialsAnnotation], ",")) != 2 {
			return fmt.Errorf("its credentials are %v", c.Annotations)
		}
		return nil
	})
	fleettest.Eventually(t, "the rights of the renewed certificate", func() bool { return listWorks(t, renewed) == nil })
	if err := listWorks(t, agent); err != nil {
		t.Error(err)
	}

	// It removes no finalizer: it fails to where the objects are not its own.
	fleettest.Delete(t, hub.Cluster, cluster)
	return renewed
}

func listWorks(t *testing.T, by *fleettest.Cluster) error {
	return by.List(t.Context(), &workv1alpha1.WorkList{}, client.InNamespace(workv1alpha1.ExecutionNamespace(kay)))
}

// endsWithItsCluster checks that the certificates of an agent are of no use without the Cluster that lists them, and without the token
// with which it could be created again.
func endsWithItsCluster(t *testing.T, hub *fleettest.Part, token string, agents ...*fleettest.Cluster) {
	later := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: kay}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	fleettest.ExpectGone(t, hub.Cluster, later)
	if r := fleettest.Flagship(t, "token", "delete", token, "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	expect := func() {
		t.Helper()
		for _, agent := range agents {
			fleettest.Eventually(t, "the Works are out of reach", func() bool { return apierrors.IsForbidden(listWorks(t, agent)) })
			if err := agent.Create(t.Context(), later.DeepCopy()); !apierrors.IsForbidden(err) {
				t.Errorf("it creates its Cluster again: %v", err)
			}
		}
	}
	expect()
	fleettest.Create(t, hub.Cluster, later)
	expect()
}

// listsItselfOnly checks what the lists and watches of an agent contain, which are for all Clusters and Services.
func listsItselfOnly(t *testing.T, hub *fleettest.Part, agent *fleettest.Cluster) {
	ctx := t.Context()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "of-a-tenant"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	fleettest.Create(t, hub.Cluster, service)
	selectors := []client.ListOption{
		client.Limit(0), client.MatchingFields{"metadata.name": kay}, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "metadata.name!=x\\"}},
		&client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: "metadata.namespace!=x"}}, client.MatchingLabels{"a": "b"},
	}
	for _, selector := range selectors {
		clusters, services := &clusterv1alpha1.ClusterList{}, &corev1.ServiceList{}
		_ = agent.List(ctx, clusters, selector) // some selectors are refused
		_ = agent.List(ctx, services, selector)
		if others := slices.DeleteFunc(clusters.Items, func(c clusterv1alpha1.Cluster) bool { return c.Name == kay }); len(others) > 0 || len(services.Items) > 0 {
			t.Errorf("with %v it lists %d other Clusters and %d Services", selector, len(others), len(services.Items))
		}
	}
	clusters, services := &clusterv1alpha1.ClusterList{}, &corev1.ServiceList{}
	if err := errors.Join(agent.List(ctx, clusters), agent.List(ctx, services)); err != nil || len(clusters.Items) != 1 {
		t.Fatalf("it lists %d Clusters: %v", len(clusters.Items), err)
	}
	changes, err := agent.Watch(ctx, clusters, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: clusters.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	arrivals, err := agent.Watch(ctx, services, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: services.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer arrivals.Stop()
	fleettest.Update(t, hub.Cluster, service, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
	for _, name := range []string{"far", kay} {
		fleettest.Update(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(c *clusterv1alpha1.Cluster) {
			c.Labels = map[string]string{"seen": "by-its-agent"}
		})
	}
	own := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(kay), Name: "own"}, Spec: service.Spec}
	own.Spec.ClusterIP, own.Spec.ClusterIPs = "", nil
	fleettest.Create(t, hub.Cluster, own)
	for name, watched := range map[string]watch.Interface{kay: changes, own.Name: arrivals} {
		select {
		case event := <-watched.ResultChan():
			if object, ok := event.Object.(client.Object); !ok || object.GetName() != name {
				t.Errorf("the first event of its watch is %v", event)
			}
		case <-ctx.Done():
			t.Fatal("no event arrives")
		}
	}
	fleettest.Delete(t, hub.Cluster, own)
	fleettest.Delete(t, hub.Cluster, service)
}

// expectRights requests every verb on every resource that is served, without a namespace, and on those that give rights in the namespace of
// the credentials of clusters. A rule has verbs and a resource, which is preceded by the namespace in which it holds only.
func expectRights(t *testing.T, hub *fleettest.Part, as *rest.Config, rules ...string) {
	t.Helper()
	// Every user may request these about itself.
	rules = append(rules, "create selfsubjectaccessreviews", "create selfsubjectrulesreviews", "create selfsubjectreviews")
	permitted := func(namespace, verb, resource string) bool {
		return slices.ContainsFunc(rules, func(rule string) bool {
			words := strings.Fields(rule)
			where, what, bounded := strings.Cut(words[len(words)-1], "/")
			if !bounded {
				where, what = "", where
			}
			return what == resource && slices.Contains(words[:len(words)-1], verb) && where == namespace
		})
	}
	served, err := discovery.NewDiscoveryClientForConfigOrDie(hub.Config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	unlimited := rest.CopyConfig(as)
	unlimited.QPS = -1
	reviews := kubernetes.NewForConfigOrDie(unlimited).AuthorizationV1().SelfSubjectAccessReviews()
	requests := 0
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			places := []string{""}
			if slices.Contains([]string{"secrets", "configmaps", "serviceaccounts", "roles", "rolebindings", "leases"}, resource.Name) {
				places = append(places, clusterv1alpha1.ClusterNamespace)
			}
			for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "proxy", "approve", "bind", "escalate"} {
				for _, namespace := range places {
					review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Verb: verb, Group: version.Group, Version: version.Version, Resource: resource.Name, Namespace: namespace,
					}}}
					answer, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
					if err != nil {
						t.Fatal(err)
					}
					requests++
					if answer.Status.Allowed != permitted(namespace, verb, resource.Name) {
						t.Errorf("%s %s in %q: allowed=%v", verb, resource.Name, namespace, answer.Status.Allowed)
					}
				}
			}
		}
	}
	if requests < 500 {
		t.Errorf("only %d verbs were tried: discovery has not everything", requests)
	}
}

// stand is a client in the place of the agent, with its credential.
func stand(t *testing.T, hub *fleettest.Cluster) *agent {
	return &agent{t: t, hub: hub, cluster: kay}
}
