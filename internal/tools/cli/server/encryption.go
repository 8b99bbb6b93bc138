package server

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newEncryptionCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "encryption",
		Short: "Change the key with which the control plane stores Secrets, and store them anew",
	}
	c.AddCommand(newRotateCommand(s), newRewriteCommand(s))
	return c
}

func newRotateCommand(s cli.Streams) *cobra.Command {
	var (
		access cli.HubAccess
		only   string
	)
	c := &cobra.Command{
		Use:   "rotate --data-dir DIR",
		Short: "Replace the built-in encryption key by a new one",
		Long: `Replaces the key with which a running control plane encrypts Secrets, Works, bindings, override policies and Clusters in
its storage. It runs on the machine of the control plane, and takes four steps:

  add      make a new key, which decrypts only
  use      encrypt with the new key
  rewrite  store every object anew
  remove   forget the old keys

A rotation that was interrupted goes on when the command is run again. Backups from before need the old key: it is in
DIR/pki/secret-encryption.key until it is removed, and in the backup of that file.

With several servers on one etcd, take the steps one by one with --step. After add, use and remove copy
DIR/pki/secret-encryption.key to every other server and restart it.`,
		Example: `  flagship encryption rotate --data-dir /var/lib/flagship
  flagship encryption rotate --data-dir /var/lib/flagship --step add`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cli.DefaultDir(&access.DataDir); err != nil {
				return err
			}
			steps := encryption.Steps()
			if only != "" {
				step := encryption.Step(only)
				if !slices.Contains(steps, step) {
					return cli.UsageErrorf("--step cannot be %q: it is one of %v", only, steps)
				}
				steps = []encryption.Step{step}
			}
			server, err := access.Config()
			if err != nil {
				return err
			}
			return encryption.Rotate(c.Context(), access.DataDir, server, s.Line, steps...)
		},
	}
	access.Flags(c)
	c.Flags().StringVar(&only, "step", "", "take one step only: add, use, rewrite or remove")
	return c
}

func newRewriteCommand(s cli.Streams) *cobra.Command {
	var access cli.HubAccess
	c := &cobra.Command{
		Use:   "rewrite",
		Short: "Store every object as the encryption configuration requires",
		Long: `Has the control plane store anew all Secrets, Works, bindings, override policies and Clusters that are not stored with the
first provider and key of its encryption configuration. A control plane with the built-in configuration does so by itself;
run this after a change of the file of --encryption-provider-config, before a provider or key is removed from it.`,
		Example: `  flagship encryption rewrite --kubeconfig hub.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := access.Config()
			if err != nil {
				return err
			}
			return controlplane.RewriteEncrypted(c.Context(), server, s.Line)
		},
	}
	access.Flags(c)
	return c
}
