package encryption

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Resources are those whose objects hold Secrets or parts of them. A Work holds the manifest of a Secret, a binding what is
// patched into one, an override policy the values to set in it, and a Cluster the headers for its proxy.
func Resources() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "secrets"},
		workv1alpha1.GroupVersion.WithResource("works"),
		workv1alpha2.GroupVersion.WithResource("resourcebindings"),
		workv1alpha2.GroupVersion.WithResource("clusterresourcebindings"),
		policyv1alpha1.GroupVersion.WithResource("overridepolicies"),
		policyv1alpha1.GroupVersion.WithResource("clusteroverridepolicies"),
		clusterv1alpha1.GroupVersion.WithResource("clusters"),
	}
}

// Configuration is the EncryptionConfiguration of the API server, as YAML. Plain objects are not encrypted. What was stored
// the other way, or with another of the keys, can be read in either case.
func Configuration(keys Keys, plain bool) ([]byte, error) {
	secretbox := &apiserverv1.SecretboxConfiguration{}
	for _, key := range keys {
		secretbox.Keys = append(secretbox.Keys, apiserverv1.Key{Name: key.Name, Secret: key.Secret})
	}
	providers := []apiserverv1.ProviderConfiguration{{Secretbox: secretbox}, {Identity: &apiserverv1.IdentityConfiguration{}}}
	if plain {
		providers[0], providers[1] = providers[1], providers[0]
	}
	var resources []string
	for _, resource := range Resources() {
		resources = append(resources, resource.GroupResource().String())
	}
	text, err := yaml.Marshal(apiserverv1.EncryptionConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
		Resources: []apiserverv1.ResourceConfiguration{{Resources: resources, Providers: providers}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the encryption configuration: %w", err)
	}
	return text, nil
}

// isPlain returns whether a configuration that Configuration made stores objects unencrypted.
func isPlain(text []byte) (bool, error) {
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return false, fmt.Errorf("reading the encryption configuration: %w", err)
	}
	return len(config.Resources) > 0 && len(config.Resources[0].Providers) > 0 && config.Resources[0].Providers[0].Identity != nil, nil
}
