package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
)

// restoredName is the key, behind the prefix, that is there while keys were restored and no server has used them. It is compared and replaced
// in one transaction, so a server that starts and a process that removes keys exclude each other, also on two machines.
const restoredName = "/flagship.io/restored"

// States of restored keys: they are being written, complete and to be replaced by those of a later backup, or being removed.
const (
	stateRestoring = "restoring"
	stateStandby   = "standby"
	stateRemoving  = "removing"
)

// removePage is how many keys are removed at once: etcd does nothing else meanwhile.
const removePage = 500

// ErrTakenOver is returned when a server has used the keys of a standby, or uses them.
var ErrTakenOver = errors.New("a server has taken over the standby")

// IsStateOfRestore returns whether a key has the state of restored keys, which is no part of what a control plane keeps.
func IsStateOfRestore(prefix, key string) bool { return key == prefix+restoredName }

// BeginRestore takes a prefix without keys. Until EndRestore no server starts on it.
func BeginRestore(ctx context.Context, client *clientv3.Client, prefix string) error {
	present, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	if present.Count == 0 {
		taken, err := replaceState(ctx, client, prefix, "", stateRestoring)
		if err != nil || taken {
			return err
		}
	}
	return fmt.Errorf("the store has %d keys that begin with %s/: restore into an empty one", max(present.Count, 1), prefix)
}

// EndRestore ends what BeginRestore began. Keys of a standby are removed again by RemoveRestored, until a server starts on them.
func EndRestore(ctx context.Context, client *clientv3.Client, prefix string, standby bool) error {
	state := ""
	if standby {
		state = stateStandby
	}
	ended, err := replaceState(ctx, client, prefix, stateRestoring, state)
	if err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("another process removed keys that begin with %s/ while they were restored", prefix)
	}
	return nil
}

// IsStandby returns whether the keys are complete and no server has used them.
func (e *External) IsStandby(ctx context.Context) (bool, error) {
	state, err := withClient(ctx, e, func(ctx context.Context, client *clientv3.Client) (string, error) {
		return stateOf(ctx, client, e.prefix())
	})
	return state == stateStandby, err
}

// Withdraw keeps servers from the keys of a standby, which RemoveRestored removes then. After a server has taken them over it returns
// ErrTakenOver.
func (e *External) Withdraw(ctx context.Context) error {
	_, err := withClient(ctx, e, func(ctx context.Context, client *clientv3.Client) (struct{}, error) {
		return struct{}{}, withdraw(ctx, client, e.prefix())
	})
	return err
}

func withdraw(ctx context.Context, client *clientv3.Client, prefix string) error {
	for {
		state, err := stateOf(ctx, client, prefix)
		if err != nil || state == stateRemoving {
			return err
		}
		if state == "" {
			return ErrTakenOver
		}
		if _, err := replaceState(ctx, client, prefix, state, stateRemoving); err != nil {
			return err
		}
	}
}

// RemoveRestored removes keys that no server has used. Keys that a server has used stay.
func (e *External) RemoveRestored(ctx context.Context) error {
	_, err := withClient(ctx, e, func(ctx context.Context, client *clientv3.Client) (struct{}, error) {
		return struct{}{}, RemoveRestored(ctx, client, e.prefix())
	})
	return err
}

// RemoveRestored removes keys that no server has used. Keys that a server has used stay.
func RemoveRestored(ctx context.Context, client *clientv3.Client, prefix string) error {
	err := withdraw(ctx, client, prefix)
	if errors.Is(err, ErrTakenOver) {
		return nil
	}
	if err != nil {
		return err
	}
	state := prefix + restoredName
	for _, part := range [][2]string{{prefix + "/", state}, {state + "\x00", clientv3.GetPrefixRangeEnd(prefix + "/")}} {
		for {
			page, err := client.Get(ctx, part[0], clientv3.WithRange(part[1]), clientv3.WithKeysOnly(), clientv3.WithLimit(removePage))
			if err != nil {
				return fmt.Errorf("reading keys to remove: %w", err)
			}
			if len(page.Kvs) == 0 {
				break
			}
			last := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
			if _, err := client.Delete(ctx, string(page.Kvs[0].Key), clientv3.WithRange(last)); err != nil {
				return fmt.Errorf("removing keys: %w", err)
			}
		}
	}
	_, err = replaceState(ctx, client, prefix, stateRemoving, "") // the last, so that what is interrupted goes on
	return err
}

// TakeOver has a server use a data directory, and the keys in an external etcd if there is one, which may have been restored from a backup. It
// returns an error for what is not whole, and for the keys of a standby that were removed: the server would begin with an empty store.
func TakeOver(ctx context.Context, dataDir string, external *External, lock *datadir.Lock) error {
	if err := lock.CheckWhole(); err != nil {
		return err
	}
	if external == nil {
		return lock.TakeOver()
	}
	fresh, err := datadir.IsStandby(dataDir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	_, err = withClient(ctx, external, func(ctx context.Context, client *clientv3.Client) (struct{}, error) {
		return struct{}{}, external.takeOver(ctx, client, fresh, lock.TakeOver)
	})
	return err
}

// takeOver marks keys as used, after taken has succeeded. Fresh is true for a data directory of a standby that no server has used.
func (e *External) takeOver(ctx context.Context, client *clientv3.Client, fresh bool, taken func() error) error {
	prefix := e.prefix()
	state, err := stateOf(ctx, client, prefix)
	if err != nil {
		return err
	}
	switch state {
	case "":
		if fresh { // the data directory was copied, and elsewhere a server has used the keys, or a later backup has replaced them
			present, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return fmt.Errorf("reading the store: %w", err)
			}
			if present.Count == 0 {
				return fmt.Errorf("etcd has no keys that begin with %s/ any more: a later backup has replaced them, start on the data directory of that one", prefix)
			}
		}
		return taken()
	case stateStandby:
		if err := taken(); err != nil {
			return err
		}
		replaced, err := replaceState(ctx, client, prefix, stateStandby, "")
		if err != nil || replaced {
			return err
		}
		if state, err = stateOf(ctx, client, prefix); err != nil || state == "" { // another server was faster
			return err
		}
	}
	return fmt.Errorf("the keys in etcd that begin with %s/ cannot be used: their state is %q, since a restore has not ended or a later backup replaces them",
		prefix, state)
}

// stateOf returns the state of restored keys; empty if there is none, as after a server has used them.
func stateOf(ctx context.Context, client *clientv3.Client, prefix string) (string, error) {
	found, err := client.Get(ctx, prefix+restoredName)
	if err != nil {
		return "", fmt.Errorf("reading whether the keys in etcd at %s were restored: %w", strings.Join(client.Endpoints(), ", "), err)
	}
	if len(found.Kvs) == 0 {
		return "", nil
	}
	return string(found.Kvs[0].Value), nil
}

// replaceState replaces a state by another; empty is none. It returns false if the state was not the one to replace.
func replaceState(ctx context.Context, client *clientv3.Client, prefix, from, to string) (bool, error) {
	key := prefix + restoredName
	is := clientv3.Compare(clientv3.Value(key), "=", from)
	if from == "" {
		is = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	change := clientv3.OpPut(key, to)
	if to == "" {
		change = clientv3.OpDelete(key)
	}
	answer, err := client.Txn(ctx).If(is).Then(change).Commit()
	if err != nil {
		return false, fmt.Errorf("recording the state of restored keys in etcd: %w", err)
	}
	return answer.Succeeded, nil
}

// withClient calls f with a connection, which ends with the call.
func withClient[T any](ctx context.Context, e *External, f func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	client, err := e.client()
	if err != nil {
		var none T
		return none, err
	}
	defer func() { _ = client.Close() }()
	return f(ctx, client)
}
