// Package remote reads from agents and from other servers what only they have of the members that they serve.
//
// In: tunnels of agents, and the addresses of servers.
//
// Out: episodes of drift, and what the guard of restored control planes reports.
//
// Owns: nothing.
//
// Never: writes anything.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

// readDrift reads the record of an agent.
func readDrift(ctx context.Context, from io.Reader) (objects []fleetv1alpha1.DriftedObject, err error) {
	return objects, json.NewDecoder(bounds.NewMeter(ctx, from, bounds.DriftAnswer.Piece, nil, false)).Decode(&objects)
}

// AgentDrift returns what reads the episodes of drift of an agent, through its tunnel: nothing is written for it, and it is never old.
func AgentDrift(tunnels *tunnel.Tunnels) func(context.Context, *clusterv1alpha1.Cluster) ([]fleetv1alpha1.DriftedObject, error) {
	return func(ctx context.Context, cluster *clusterv1alpha1.Cluster) ([]fleetv1alpha1.DriftedObject, error) {
		_, transport := tunnels.Member(cluster.Name, cluster.UID)
		if transport == nil {
			return nil, errors.New("its agent, which has the record, has no tunnel to this server")
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+drift.Host+"/", nil)
		if err != nil {
			return nil, fmt.Errorf("making the request: %w", err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, fmt.Errorf("reading the record of its agent: %w", err)
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("its agent has no record: it answers %s", response.Status)
		}
		objects, err := readDrift(ctx, response.Body)
		if err != nil {
			return nil, fmt.Errorf("reading the record of its agent: %w", err)
		}
		return drift.Accept(cluster.Name, objects), nil
	}
}
