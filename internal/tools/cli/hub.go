package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// HubKubeconfig is the file in a data directory that leads to the control plane.
const HubKubeconfig = "hub.kubeconfig"

// DefaultDir fills in the user's state directory. A directory that is a link is replaced by where it leads: the link of a standby may lead
// elsewhere later, while a process uses the directory.
func DefaultDir(dir *string) (err error) {
	if *dir == "" {
		*dir, err = StateDir()
		return err
	}
	// A directory that is missing is made or reported by its user.
	if info, err := os.Lstat(*dir); err == nil && info.Mode()&os.ModeSymlink != 0 {
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil {
			return fmt.Errorf("following --data-dir: %w", err)
		}
	}
	return nil
}

// StateDir is where a playground or server keeps its files by default.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "flagship"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding a place for state: %w; set --data-dir", err)
	}
	return filepath.Join(home, ".local", "state", "flagship"), nil
}

// HubAccess finds the control plane.
type HubAccess struct {
	kubeconfig, context string
	// DataDir is the data directory of a control plane or playground on this machine, "" if none is given.
	DataDir string
}

// Flags adds the flags that lead to the control plane.
func (a *HubAccess) Flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig of the control plane (default: KUBECONFIG, else that of the data directory)")
	f.StringVar(&a.context, "context", "", "context in that kubeconfig (default: its current one)")
	f.StringVar(&a.DataDir, "data-dir", "", "data directory of the control plane or playground on this machine")
}

// Config finds the control plane: what is on the command line wins, then KUBECONFIG, then what runs on this machine.
func (a *HubAccess) Config() (*rest.Config, error) {
	config, _, err := a.ConfigAndNamespace()
	return config, err
}

// ConfigAndNamespace is Config, with the namespace of the kubeconfig's context.
func (a *HubAccess) ConfigAndNamespace() (config *rest.Config, namespace string, err error) {
	path, err := a.path()
	if err != nil {
		return nil, "", err
	}
	access, err := membership.LoadAccess(path, a.context)
	if err != nil {
		return nil, "", fmt.Errorf("finding the control plane: %w", err)
	}
	// The control plane limits requests by user. The five a second of a client would have `undelete --all` take minutes for a thousand objects.
	access.Config.QPS = -1
	return access.Config, access.Namespace, nil
}

func (a *HubAccess) path() (string, error) {
	if a.kubeconfig != "" {
		return a.kubeconfig, nil
	}
	if a.DataDir != "" {
		return filepath.Join(a.DataDir, HubKubeconfig), nil
	}
	// As kubectl does, the first of several that exists; a list is rare for a control plane and not merged here.
	if env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); env != "" {
		files := filepath.SplitList(env)
		for _, file := range files {
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
		return files[0], nil
	}
	dir, err := StateDir()
	if err != nil {
		return "", err
	}
	for _, file := range []string{filepath.Join(dir, HubKubeconfig), filepath.Join(dir, "playground", HubKubeconfig)} {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", errors.New("no control plane found: set --kubeconfig, KUBECONFIG or --data-dir")
}
