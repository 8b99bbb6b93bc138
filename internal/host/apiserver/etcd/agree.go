package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// agreeTimeout bounds a start on an etcd that does not answer. An election among its servers takes a second or two.
const agreeTimeout = 20 * time.Second

// keysName is the key, behind the prefix, of what servers record of their keys.
const keysName = "/flagship.io/server-keys"

// InUse is whether storage has the data of servers that ran before: the embedded etcd of a data directory, or the external one.
func InUse(ctx context.Context, dataDir string, external *External) (bool, error) {
	if external == nil {
		_, err := os.Stat(filepath.Join(dataDir, dirName, "member"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("looking for the data of etcd: %w", err)
		}
		return err == nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	return withClient(ctx, external, func(ctx context.Context, client *clientv3.Client) (bool, error) {
		found, err := client.Get(ctx, external.prefix()+keysName, clientv3.WithCountOnly())
		if err != nil {
			return false, fmt.Errorf("reading the record of the keys in etcd at %s: %w", strings.Join(external.Endpoints, ", "), err)
		}
		return found.Count > 0, nil
	})
}

// Agree has servers on one etcd agree on a value: it calls decide with the value so far, nil for none, and stores what that returns. Decide
// may be called again, if another server stored a value meanwhile.
func (e *External) Agree(ctx context.Context, decide func(recorded []byte) ([]byte, error)) error {
	client, err := e.client()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	key := e.prefix() + keysName
	for {
		found, err := client.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("reading the record of the keys in etcd at %s: %w", strings.Join(e.Endpoints, ", "), err)
		}
		var recorded []byte
		revision := int64(0)
		if len(found.Kvs) > 0 {
			recorded, revision = found.Kvs[0].Value, found.Kvs[0].ModRevision
		}
		wanted, err := decide(recorded)
		if err != nil || bytes.Equal(wanted, recorded) {
			return err
		}
		answer, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(wanted))).Commit()
		if err != nil {
			return fmt.Errorf("recording the keys in etcd: %w", err)
		}
		if answer.Succeeded {
			return nil
		}
	}
}
