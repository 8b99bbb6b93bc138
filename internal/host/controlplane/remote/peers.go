package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/sharding"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

const (
	// peerTimeout bounds a request to another server.
	peerTimeout = 10 * time.Second
	// maxPeerAnswer is how many bytes another server may answer.
	maxPeerAnswer = 64 << 20
)

// Peers reads from other servers what they have of the members that they serve. It presents the credential of the administrator, which
// each of them accepts: they have the same certificate authority. All fields are required.
type Peers struct {
	Server *apiserver.Server
	Shard  *sharding.Server
}

// get reads a page about a cluster from the server that serves it.
func (p *Peers) get(ctx context.Context, path, cluster string, into any) error {
	address, ok := p.Shard.Peer(cluster)
	if !ok {
		return fmt.Errorf("no server serves cluster %s at present", cluster)
	}
	kubeconfig, err := p.Server.AdminKubeconfig()
	if err != nil {
		return fmt.Errorf("reading the credential for other servers: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the credential for other servers: %w", err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("building a client for other servers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path+"?"+url.Values{"cluster": {cluster}}.Encode(), nil)
	if err != nil {
		return fmt.Errorf("making the request to %s: %w", address, err)
	}
	request.Header.Set(restore.LocalHeader, "true")
	response, err := web.Do(request)
	if err != nil {
		return fmt.Errorf("reading from the server of cluster %s: %w", cluster, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server of cluster %s, %s, answers %s", cluster, address, response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxPeerAnswer)).Decode(into); err != nil {
		return fmt.Errorf("reading from the server of cluster %s: %w", cluster, err)
	}
	return nil
}

// Drift reads the episodes of drift of a cluster that another server serves; there are none for one that this server serves.
func (p *Peers) Drift(ctx context.Context, cluster *clusterv1alpha1.Cluster) ([]fleetv1alpha1.DriftedObject, error) {
	if p.Shard.Serves(cluster.Name) {
		return nil, nil
	}
	var objects []fleetv1alpha1.DriftedObject
	if err := p.get(ctx, drift.Path, cluster.Name, &objects); err != nil {
		return nil, err
	}
	return drift.Accept(cluster.Name, objects), nil
}

// DriftPage answers Drift of other servers from those of this one.
func (p *Peers) DriftPage(episodes *drift.Episodes) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cluster := r.URL.Query().Get("cluster")
		if !p.Shard.Serves(cluster) {
			http.Error(w, "this server does not serve cluster "+cluster, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(episodes.List(cluster)) // the caller is gone otherwise
	})
}

// Report reads a page of the guard of restored control planes about a cluster that another server serves.
func (p *Peers) Report(ctx context.Context, path, cluster string) (restore.Report, error) {
	var reports []restore.Report
	if err := p.get(ctx, path, cluster, &reports); err != nil {
		return restore.Report{}, err
	}
	if len(reports) != 1 || reports[0].Cluster != cluster {
		return restore.Report{}, fmt.Errorf("the server of cluster %s answers about others", cluster)
	}
	return reports[0], nil
}
