package agent

import (
	"context"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// credentialsOf returns the credential that a configuration holds. Files are read each time, since a mounted token is renewed there.
func credentialsOf(cfg *rest.Config) member.CredentialsFunc {
	return func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		loaded := rest.CopyConfig(cfg)
		if err := rest.LoadTLSFiles(loaded); err != nil {
			return member.Credential{}, fmt.Errorf("reading the credential of the cluster: %w", err)
		}
		if cfg.BearerTokenFile != "" {
			token, err := os.ReadFile(cfg.BearerTokenFile)
			if err != nil {
				return member.Credential{}, fmt.Errorf("reading the credential of the cluster: %w", err)
			}
			loaded.BearerToken = string(token)
		}
		return member.Credential{
			Token: strings.TrimSpace(loaded.BearerToken), CABundle: loaded.CAData, Certificate: loaded.CertData, Key: loaded.KeyData, Endpoint: cfg.Host,
		}, nil
	}
}
