package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func newCluster() *clusterv1alpha1.Cluster {
	cluster := &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "member1"},
		Spec: clusterv1alpha1.ClusterSpec{
			SyncMode:    clusterv1alpha1.Push,
			APIEndpoint: "https://10.0.0.1:6443",
			SecretRef:   &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "member1"},
		},
	}
	clusterv1alpha1.SetDefaults(cluster)
	return cluster
}

func TestValidate(t *testing.T) {
	type spec = clusterv1alpha1.ClusterSpec
	cases := map[string]struct {
		edit func(*spec)
		want []string // the fields found wrong
	}{
		"a typical cluster":                   {edit: func(*spec) {}},
		"a pulling cluster needs no endpoint": {edit: func(s *spec) { s.SyncMode, s.APIEndpoint, s.SecretRef = clusterv1alpha1.Pull, "", nil }},
		"no mode":                             {edit: func(s *spec) { s.SyncMode = "" }, want: []string{"spec.syncMode"}},
		"an unknown mode":                     {edit: func(s *spec) { s.SyncMode = "Both" }, want: []string{"spec.syncMode"}},
		"a bare host":                         {edit: func(s *spec) { s.APIEndpoint = "member1.example.com" }},
		"a host and port":                     {edit: func(s *spec) { s.APIEndpoint = "10.0.0.1:6443" }},
		"an IPv6 host":                        {edit: func(s *spec) { s.APIEndpoint = "https://[fd00::1]:6443" }},
		"a path behind a gateway":             {edit: func(s *spec) { s.APIEndpoint = "https://gateway.example.com/k8s/clusters/a" }},
		"no host":                             {edit: func(s *spec) { s.APIEndpoint = "https://" }, want: []string{"spec.apiEndpoint"}},
		"a broken port":                       {edit: func(s *spec) { s.APIEndpoint = "host:port" }, want: []string{"spec.apiEndpoint"}},
		"an odd scheme":                       {edit: func(s *spec) { s.APIEndpoint = "ftp://host" }, want: []string{"spec.apiEndpoint"}},
		"a password in the endpoint":          {edit: func(s *spec) { s.APIEndpoint = "https://a:b@host" }, want: []string{"spec.apiEndpoint"}},
		"a proxy":                             {edit: func(s *spec) { s.ProxyURL = "socks5://user:word@proxy:1080" }},
		"an odd proxy":                        {edit: func(s *spec) { s.ProxyURL = "ssh://proxy" }, want: []string{"spec.proxyURL"}},
		"a proxy without a host":              {edit: func(s *spec) { s.ProxyURL = "http://" }, want: []string{"spec.proxyURL"}},
		"half a secret":                       {edit: func(s *spec) { s.SecretRef.Name = "" }, want: []string{"spec.secretRef.name"}},
		"the other half of a secret":          {edit: func(s *spec) { s.ImpersonatorSecretRef = &clusterv1alpha1.LocalSecretReference{Name: "a"} }, want: []string{"spec.impersonatorSecretRef.namespace"}},
		"a zone twice":                        {edit: func(s *spec) { s.Zones = []string{"a", "b", "a"} }, want: []string{"spec.zones[2]"}},
		"a nameless zone":                     {edit: func(s *spec) { s.Zones = []string{""} }, want: []string{"spec.zones[0]"}},
		"a taint by two effects":              {edit: taints("a:NoSchedule", "a:NoExecute")},
		"a taint twice":                       {edit: taints("a:NoSchedule", "a:NoSchedule"), want: []string{"spec.taints[1]"}},
		"a taint with an odd key":             {edit: taints("a b:NoSchedule"), want: []string{"spec.taints[0].key"}},
		"a taint without effect":              {edit: taints("a:"), want: []string{"spec.taints[0].effect"}},
		"a taint with an odd effect":          {edit: taints("a:Never"), want: []string{"spec.taints[0].effect"}},
		"a taint with an odd value":           {edit: func(s *spec) { s.Taints = []corev1.Taint{{Key: "a", Value: "b c", Effect: "NoSchedule"}} }, want: []string{"spec.taints[0].value"}},
		"no resource models":                  {edit: func(s *spec) { s.ResourceModels = nil }},
		"a gap between grades":                {edit: func(s *spec) { s.ResourceModels[1].Grade = 9 }, want: []string{"spec.resourceModels[1].grade"}},
		"a gap between ranges":                {edit: func(s *spec) { s.ResourceModels[1].Ranges[0] = modelRange("cpu", "1500m", "2") }, want: []string{"spec.resourceModels[1].ranges[0].min"}},
		"an empty range":                      {edit: func(s *spec) { s.ResourceModels[8].Ranges[0] = modelRange("cpu", "128", "128") }, want: []string{"spec.resourceModels[8].ranges[0].max"}},
		"a resource in one grade only":        {edit: func(s *spec) { s.ResourceModels[8].Ranges[0].Name = "gpu" }, want: []string{"spec.resourceModels[8].ranges[0].name"}},
		"fewer resources in one grade":        {edit: func(s *spec) { s.ResourceModels[8].Ranges = s.ResourceModels[8].Ranges[:1] }, want: []string{"spec.resourceModels[8].ranges"}},
		"a grade without ranges":              {edit: func(s *spec) { s.ResourceModels = []clusterv1alpha1.ResourceModel{{}} }, want: []string{"spec.resourceModels[0].ranges"}},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			cluster := newCluster()
			c.edit(&cluster.Spec)
			var got []string
			for _, err := range clusterv1alpha1.Validate(cluster) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("fields found wrong differ (-want +got):\n%s", diff)
			}
		})
	}
}

// taints returns an edit that sets taints, each written as key:effect.
func taints(texts ...string) func(*clusterv1alpha1.ClusterSpec) {
	return func(spec *clusterv1alpha1.ClusterSpec) {
		for _, text := range texts {
			key, effect, _ := strings.Cut(text, ":")
			spec.Taints = append(spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
		}
	}
}

func TestValidateName(t *testing.T) {
	cases := map[string]struct {
		name string
		ok   bool
	}{
		"a label":     {"member-1", true},
		"long enough": {strings.Repeat("x", 48), true},
		"too long":    {strings.Repeat("x", 49), false},
		"a subdomain": {"a.b", false},
		"capitals":    {"Member", false},
		"nothing":     {"", false},
		"any cluster": {"*", false},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			cluster := newCluster()
			cluster.Name = c.name
			if errs := clusterv1alpha1.Validate(cluster); (len(errs) == 0) != c.ok {
				t.Errorf("got errors %v, want ok %v", errs, c.ok)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	cases := map[string]struct {
		old, updated string
		ok           bool
	}{
		"an id is set":     {"", "a", true},
		"an id is kept":    {"a", "a", true},
		"an id is changed": {"a", "b", false},
		"an id is cleared": {"a", "", false},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			old, updated := newCluster(), newCluster()
			old.Spec.ID, updated.Spec.ID = c.old, c.updated
			if errs := clusterv1alpha1.ValidateUpdate(updated, old); (len(errs) == 0) != c.ok {
				t.Errorf("got errors %v, want ok %v", errs, c.ok)
			}
		})
	}
}

func TestErrorsDoNotRepeatProxyPasswords(t *testing.T) {
	cluster := newCluster()
	cluster.Spec.ProxyURL = "ssh://user:secret@proxy"
	errs := clusterv1alpha1.Validate(cluster)
	if len(errs) == 0 || strings.Contains(errs.ToAggregate().Error(), "secret") {
		t.Errorf("got %v", errs)
	}
}
