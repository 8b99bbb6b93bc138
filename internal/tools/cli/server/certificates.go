package server

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newCertificatesCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "certificates",
		Short: "Replace the certificate authorities of the control plane",
	}
	c.AddCommand(newRotateAuthorityCommand(s))
	return c
}

func newRotateAuthorityCommand(s cli.Streams) *cobra.Command {
	var dataDir, step string
	c := &cobra.Command{
		Use:   "rotate-authority --data-dir DIR --step STEP",
		Short: "Replace the certificate authorities of a control plane that does not run",
		Long: `Takes one step in the replacement of the authorities that sign the certificates of the control plane and its clients. Stop
the control plane before each step, and start it again after it:

  prepare  make new authorities, which are trusted but do not sign; then hand out the kubeconfigs again
  switch   sign with the new authorities; what the old ones signed stays valid
  finish   trust the new authorities only; every certificate that the old ones signed is void

A control plane with an embedded etcd takes the first two steps by itself, two years and 400 days before the end of the ten
years of an authority. Take them by hand after a key or a kubeconfig was disclosed, or with several servers on one etcd: run
the command on one of them and copy its DIR/pki/ca*, DIR/pki/front-proxy-ca* to the others.`,
		Example: `  flagship certificates rotate-authority --data-dir /var/lib/flagship --step prepare`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := cli.DefaultDir(&dataDir); err != nil {
				return err
			}
			steps := credentials.AuthoritySteps()
			if !slices.Contains(steps, credentials.AuthorityStep(step)) {
				return cli.UsageErrorf("--step cannot be %q: it is one of %v", step, steps)
			}
			if err := credentials.RotateAuthority(dataDir, credentials.AuthorityStep(step)); err != nil {
				return err
			}
			s.Line("done; start the control plane again")
			return nil
		},
	}
	c.Flags().StringVar(&dataDir, "data-dir", "", "data directory of the control plane")
	c.Flags().StringVar(&step, "step", "", "prepare, switch or finish")
	return c
}
