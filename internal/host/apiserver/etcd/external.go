package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// ExternalEtcd is how to reach an etcd cluster.
type External struct {
	// Endpoints are URLs, https for TLS.
	Endpoints []string `json:"endpoints"`
	// CAFile verifies the servers; CertFile and KeyFile are the client's identity. All optional.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// Prefix is the path all keys start with; empty means /registry.
	Prefix string `json:"prefix,omitempty"`
}

// client is a connection of our own.
func (e *External) client() (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: e.Endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()}
	if e.CAFile != "" || e.CertFile != "" {
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if e.CAFile != "" {
		authorities, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the authority of etcd: %w", err)
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("the authority of etcd in %s cannot be read", e.CAFile)
		}
	}
	if e.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate for etcd: %w", err)
		}
		config.TLS.Certificates = []tls.Certificate{pair}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}

// transport is how the API server reaches its storage.
func (e *External) transport() storagebackend.TransportConfig {
	return storagebackend.TransportConfig{
		ServerList:    e.Endpoints,
		TrustedCAFile: e.CAFile,
		CertFile:      e.CertFile,
		KeyFile:       e.KeyFile,
	}
}

// largest is the size of the database of that server of an etcd cluster which is the nearest to its quota. The quota is 0 if
// etcd is too old to report it. Servers that do not answer are left out, unless none does.
func largest(ctx context.Context, client *clientv3.Client) (used, quota int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	endpoints := client.Endpoints()
	answers, faults := make([]*clientv3.StatusResponse, len(endpoints)), make([]error, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() {
			if answers[i], faults[i] = client.Status(ctx, endpoint); faults[i] != nil {
				faults[i] = fmt.Errorf("reading the status of etcd at %s: %w", endpoint, faults[i])
			}
		})
	}
	all.Wait()
	answered := false
	for _, status := range answers {
		if status != nil && status.DbSize >= used {
			used, quota, answered = status.DbSize, status.DbSizeQuota, true
		}
	}
	if !answered {
		return 0, 0, errors.Join(faults...)
	}
	return used, quota, nil
}
