package etcd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// agreeTimeout bounds a start on an etcd that does not answer. An election among its servers takes a second or two.
const agreeTimeout = 20 * time.Second

// keysName is the key, behind the prefix, of what servers record of their keys.
const keysName = "/flagship.io/server-keys"

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
