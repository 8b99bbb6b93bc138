package credentials

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

// AuthorityStep is a step in the replacement of the certificate authorities.
type AuthorityStep string

// The steps, each of which takes effect with the next start of a server.
const (
	// PrepareAuthority makes new authorities, which are trusted but do not sign.
	PrepareAuthority AuthorityStep = "prepare"
	// SwitchAuthority has the new authorities sign.
	SwitchAuthority AuthorityStep = "switch"
	// FinishAuthority ends the trust in the old authorities, and so voids what they signed.
	FinishAuthority AuthorityStep = "finish"
)

// AuthoritySteps are all steps, in their order.
func AuthoritySteps() []AuthorityStep {
	return []AuthorityStep{PrepareAuthority, SwitchAuthority, FinishAuthority}
}

// RotateAuthority takes a step in the replacement of the certificate authorities of the server with this data directory. It
// fails with an InUseError while the server runs.
func RotateAuthority(dataDir string, step AuthorityStep) error {
	keys := filepath.Join(dataDir, "pki")
	// A misspelt directory gets no new authorities: the disclosed key would be trusted still, although the command succeeds.
	if _, err := os.Stat(filepath.Join(keys, authorityName+".key")); err != nil {
		return fmt.Errorf("no control plane has its keys in %s: %w", keys, err)
	}
	lock, err := datadir.Acquire(dataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	dir, err := pki.Open(keys, clock.RealClock{})
	if err != nil {
		return err
	}
	switched := 0
	for name, commonName := range commonNames() {
		switch step {
		case PrepareAuthority:
			_, err = dir.Prepare(name, commonName)
		case SwitchAuthority:
			if err = dir.Switch(name); errors.Is(err, pki.ErrNoSuccessor) {
				err = nil // it may have been switched before the command was interrupted
			} else {
				switched++
			}
		case FinishAuthority:
			err = dir.Finish(name)
		default:
			err = fmt.Errorf("unknown step %q", step)
		}
		if err != nil {
			return fmt.Errorf("replacing the authority %q: %w", name, err)
		}
	}
	if step == SwitchAuthority && switched == 0 {
		return pki.ErrNoSuccessor
	}
	return nil
}
