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
		out := member.Credential{Token: cfg.BearerToken, CABundle: cfg.CAData, Certificate: cfg.CertData, Key: cfg.KeyData, Endpoint: cfg.Host}
		token := []byte(out.Token)
		for _, from := range []struct {
			file string
			to   *[]byte
		}{{cfg.BearerTokenFile, &token}, {cfg.CAFile, &out.CABundle}, {cfg.CertFile, &out.Certificate}, {cfg.KeyFile, &out.Key}} {
			if from.file == "" || len(*from.to) > 0 && from.to != &token {
				continue
			}
			content, err := os.ReadFile(from.file)
			if err != nil {
				return member.Credential{}, fmt.Errorf("reading the credential of the cluster: %w", err)
			}
			*from.to = content
		}
		out.Token = strings.TrimSpace(string(token))
		return out, nil
	}
}
