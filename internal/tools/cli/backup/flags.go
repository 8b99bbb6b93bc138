package backup

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/host/backup/kms"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// s3Flags say how an object storage is reached.
type s3Flags struct{ repository.S3 }

func (o *s3Flags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.Endpoint, "s3-endpoint", "", "URL of the S3 API of s3://BUCKET (default: that of Amazon)")
	c.Flags().StringVar(&o.Region, "s3-region", "", "region of the bucket (default: read from the API)")
	c.Flags().StringVar(&o.CAFile, "s3-cafile", "", "certificate authority of the S3 API (default: those of this machine)")
}

// LocationFlags lead to where backups are kept.
type LocationFlags struct {
	s3             s3Flags
	flag, location string
}

// Add adds a flag for the location, and those that say how object storage is reached.
func (o *LocationFlags) Add(c *cobra.Command, flag, usage string) {
	o.flag = flag
	c.Flags().StringVar(&o.location, flag, "", usage)
	o.s3.add(c)
}

// Given returns whether there is a location.
func (o *LocationFlags) Given() bool { return o.location != "" }

// Open returns where backups are kept.
func (o *LocationFlags) Open() (repository.Repository, error) {
	if !o.Given() {
		return nil, cli.UsageErrorf("--%s LOCATION is needed: DIR, s3://BUCKET or s3://BUCKET/PREFIX", o.flag)
	}
	in, err := repository.Open(o.location, o.s3.S3)
	if err != nil {
		return nil, cli.UsageErrorf("--%s: %v", o.flag, err)
	}
	return in, nil
}

// storageFlags lead to a control plane's storage.
type storageFlags struct {
	dataDir string
	etcd    etcd.External
}

func (o *storageFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.dataDir, "data-dir", "", "data directory of the control plane (default: flagship in the user's state directory)")
	EtcdFlags(c.Flags(), &o.etcd)
}

// EtcdFlags adds the flags that lead to an external etcd cluster.
func EtcdFlags(f *pflag.FlagSet, external *etcd.External) {
	f.StringSliceVar(&external.Endpoints, "etcd-servers", nil, "URLs of an external etcd cluster (default: embedded)")
	f.StringVar(&external.CAFile, "etcd-cafile", "", "certificate authority of the etcd servers")
	f.StringVar(&external.CertFile, "etcd-certfile", "", "client certificate for etcd")
	f.StringVar(&external.KeyFile, "etcd-keyfile", "", "key of the client certificate for etcd")
	f.StringVar(&external.Prefix, "etcd-prefix", "", "where all keys start in etcd (default /registry)")
}

func (o *storageFlags) read() (backup.Storage, error) {
	if err := cli.DefaultDir(&o.dataDir); err != nil {
		return backup.Storage{}, err
	}
	external, err := ExternalEtcd(o.dataDir, o.etcd)
	if err != nil {
		return backup.Storage{}, err
	}
	return backup.Storage{DataDir: o.dataDir, External: external}, nil
}

// ExternalEtcd returns the external etcd cluster of a data directory, by the flags and what a restore noted there; nil if it has none.
func ExternalEtcd(dataDir string, flags etcd.External) (*etcd.External, error) {
	return etcd.Choose(dataDir, flags)
}

// recipientFlags are who can decrypt a backup.
type recipientFlags struct {
	passphrase, plugin string
	recipients         []string
}

func (o *recipientFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase that the backup is encrypted with")
	c.Flags().StringSliceVar(&o.recipients, "recipient", nil, "public key of age (age1…) that the backup is encrypted for; may be given again")
	c.Flags().StringVar(&o.plugin, "kms-plugin", "", kmsUsage)
}

const kmsUsage = "socket of a KMS plugin (unix:///PATH), as kube-apiserver uses it, whose key encrypts the backup"

// read returns who can decrypt the backup. A passphrase is alone: with others, whoever they are could replace it.
func (o *recipientFlags) read(ctx context.Context) ([]age.Recipient, error) {
	if (o.passphrase == "") == (len(o.recipients) == 0 && o.plugin == "") {
		return nil, cli.UsageErrorf("either --passphrase-file, or --recipient or --kms-plugin or both are needed: a backup has private keys, and is always encrypted")
	}
	if o.passphrase != "" {
		passphrase, err := readPassphrase(o.passphrase)
		if err != nil {
			return nil, err
		}
		recipient, err := age.NewScryptRecipient(passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		return []age.Recipient{recipient}, nil
	}
	var recipients []age.Recipient
	if len(o.recipients) > 0 {
		var err error
		recipients, err = age.ParseRecipients(strings.NewReader(strings.Join(o.recipients, "\n")))
		if err != nil {
			return nil, cli.UsageErrorf("--recipient: %v", err)
		}
	}
	if o.plugin != "" {
		key, err := kms.Connect(ctx, o.plugin)
		if err != nil {
			return nil, err
		}
		recipients = append(recipients, key)
	}
	return recipients, nil
}

// identityFlags decrypt a backup.
type identityFlags struct{ passphrase, identities, plugin string }

func (o *identityFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase that the backup is encrypted with")
	c.Flags().StringVar(&o.identities, "identity-file", "", "file with identities of age, one of which is that of a recipient of the backup")
	c.Flags().StringVar(&o.plugin, "kms-plugin", "", kmsUsage)
}

func (o *identityFlags) read(ctx context.Context) ([]age.Identity, error) {
	switch given := nonEmpty(o.passphrase, o.identities, o.plugin); {
	case given != 1:
		return nil, cli.UsageErrorf("one of --passphrase-file, --identity-file and --kms-plugin is needed to decrypt the backup")
	case o.passphrase != "":
		passphrase, err := readPassphrase(o.passphrase)
		if err != nil {
			return nil, err
		}
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		return []age.Identity{identity}, nil
	case o.plugin != "":
		key, err := kms.Connect(ctx, o.plugin)
		if err != nil {
			return nil, err
		}
		return []age.Identity{key}, nil
	}
	file, err := os.Open(o.identities)
	if err != nil {
		return nil, fmt.Errorf("reading identities: %w", err)
	}
	defer func() { _ = file.Close() }()
	identities, err := age.ParseIdentities(file)
	if err != nil {
		return nil, fmt.Errorf("reading identities of %s: %w", o.identities, err)
	}
	return identities, nil
}

func nonEmpty(values ...string) (count int) {
	for _, value := range values {
		if value != "" {
			count++
		}
	}
	return count
}

// backupFlags lead to one backup and decrypt it.
type backupFlags struct {
	with identityFlags
	s3   s3Flags
}

func (o *backupFlags) add(c *cobra.Command) {
	o.with.add(c)
	o.s3.add(c)
}

// open opens a backup at a path or s3://BUCKET/NAME, and reads the identities that decrypt it. The caller closes the backup.
func (o *backupFlags) open(ctx context.Context, location string) ([]age.Identity, io.ReadCloser, error) {
	identities, err := o.with.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	file, err := repository.OpenFile(ctx, location, o.s3.S3)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the backup: %w", err)
	}
	return identities, file, nil
}

// shortestPassphrase is the least number of bytes of a passphrase. A shorter one is guessed from a stolen backup.
const shortestPassphrase = 12

func readPassphrase(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	passphrase := strings.TrimRight(string(content), "\r\n")
	if len(passphrase) < shortestPassphrase {
		return "", cli.UsageErrorf("the passphrase in %s has less than %d bytes: whoever gets a backup would guess it", path, shortestPassphrase)
	}
	return passphrase, nil
}
