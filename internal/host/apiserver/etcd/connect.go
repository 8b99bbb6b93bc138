package etcd

import (
	"context"
	"fmt"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Connect connects another process to the storage of a control plane: to an external etcd, or through the socket to the one inside the
// server that uses a data directory. It also returns what all keys begin with. The caller closes the client.
func Connect(ctx context.Context, dataDir string, external *External) (_ *clientv3.Client, prefix string, err error) {
	prefix = defaultPrefix
	if external == nil {
		// The directory is a link where the path would be too long for a socket.
		sockets, err := filepath.EvalSymlinks(filepath.Join(dataDir, socketsName))
		if err != nil {
			return nil, "", fmt.Errorf("finding the socket of the storage: %w", err)
		}
		external = &External{Endpoints: []string{endpointIn(sockets)}}
	} else {
		prefix = external.prefix()
	}
	client, err := external.client()
	if err != nil {
		return nil, "", err
	}
	if _, _, err := largest(ctx, client); err != nil {
		_ = client.Close()
		return nil, "", fmt.Errorf("reaching etcd: %w", err)
	}
	return client, prefix, nil
}
