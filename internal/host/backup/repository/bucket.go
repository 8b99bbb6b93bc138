package repository

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/client-go/util/cert"
)

// S3 says how an object storage is reached.
type S3 struct {
	// Endpoint is the URL of the S3 API; the default is that of Amazon.
	Endpoint string
	// Region of the buckets; without it, it is read from the API.
	Region string
	// CAFile has the authorities of the endpoint's certificate; the default is those of this machine.
	CAFile string
}

const (
	defaultEndpoint = "https://s3.amazonaws.com"
	// partSize is how many bytes are sent, and held in memory, at once. A file has at most 10,000 parts: 160 GB.
	partSize = 16 << 20
)

// errNoCredentials is returned if none of the places has credentials. Requests without any would fail with a message that does not help.
var errNoCredentials = errors.New("no credentials for the S3 API are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE and the file of credentials, or give the machine a role")

// bucket is a bucket, or a part of it, as a Repository.
type bucket struct {
	client         *minio.Client
	bucket, prefix string
}

var _ Repository = &bucket{}

// newBucket finds credentials where the tools of Amazon do: in the environment, in the file of credentials, from the machine.
func newBucket(name, prefix string, s3 S3) (*bucket, error) {
	if s3.Endpoint == "" {
		s3.Endpoint = defaultEndpoint
	}
	endpoint, err := url.Parse(s3.Endpoint)
	if err != nil || endpoint.Host == "" || strings.Trim(endpoint.Path, "/") != "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, fmt.Errorf("the endpoint %q is no URL of a server: use https://HOST or https://HOST:PORT", s3.Endpoint)
	}
	secure := endpoint.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("building a client of the S3 API: %w", err)
	}
	if s3.CAFile != "" {
		authorities, err := cert.NewPool(s3.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the authorities of the endpoint: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	found := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: found, Secure: secure, Region: s3.Region, Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("building a client of the S3 API: %w", err)
	}
	value, err := found.GetWithContext(client.CredContext())
	if err != nil {
		return nil, fmt.Errorf("reading credentials for the S3 API: %w", err)
	}
	if value.AccessKeyID == "" {
		return nil, errNoCredentials
	}
	return &bucket{client: client, bucket: name, prefix: prefix}, nil
}

func (b *bucket) key(name string) string { return path.Join(b.prefix, name) }

// Write implements Repository. The object appears when its last part has arrived.
func (b *bucket) Write(ctx context.Context, name string, content func(io.Writer) error) (int64, error) {
	// Not every server has conditional writes, and not every user may read: one of both refuses a second file.
	if _, err := b.client.StatObject(ctx, b.bucket, b.key(name), minio.StatObjectOptions{}); err == nil {
		return 0, fmt.Errorf("%s: %w", b.Location(name), ErrExists)
	}
	read, write := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := content(write)
		if err != nil {
			err = fmt.Errorf("writing the content: %w", err) // io.EOF itself would end the upload as if it were whole
		}
		_ = write.CloseWithError(err)
		written <- err
	}()
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partSize}
	options.SetMatchETagExcept("*")
	info, err := b.client.PutObject(ctx, b.bucket, b.key(name), read, -1, options)
	_ = read.CloseWithError(errUploadEnded)
	if contentErr := <-written; contentErr != nil && !errors.Is(contentErr, errUploadEnded) {
		return 0, contentErr
	}
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return 0, fmt.Errorf("%s: %w", b.Location(name), ErrExists)
	}
	if err != nil {
		return 0, b.wrap("writing to", err)
	}
	return info.Size, nil
}

// errUploadEnded ends the writing of content that is read no further.
var errUploadEnded = errors.New("the upload has ended")

// List implements Repository.
func (b *bucket) List(ctx context.Context) ([]File, error) {
	below := ""
	if b.prefix != "" {
		below = b.prefix + "/"
	}
	var found []File
	for object := range b.client.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: below}) {
		if object.Err != nil {
			return nil, b.wrap("listing", object.Err)
		}
		if name := strings.TrimPrefix(object.Key, below); !strings.HasSuffix(name, "/") {
			found = append(found, File{Name: name, Bytes: object.Size})
		}
	}
	return found, nil
}

// Open implements Repository.
func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.client.GetObject(ctx, b.bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.wrap("reading", err)
	}
	if _, err := object.Stat(); err != nil { // the first request
		return nil, errors.Join(b.wrap("reading "+name+" in", err), object.Close())
	}
	return object, nil
}

// Delete implements Repository.
func (b *bucket) Delete(ctx context.Context, name string) error {
	if err := b.client.RemoveObject(ctx, b.bucket, b.key(name), minio.RemoveObjectOptions{}); err != nil {
		return b.wrap("deleting "+name+" in", err)
	}
	return nil
}

// Location implements Repository.
func (b *bucket) Location(name string) string { return scheme + b.bucket + "/" + b.key(name) }

// wrap adds the bucket, and the code of the API, which documentation lists.
func (b *bucket) wrap(doing string, err error) error {
	if code := minio.ToErrorResponse(err).Code; code != "" {
		return fmt.Errorf("%s the bucket %s of %s: %s: %w", doing, b.bucket, b.client.EndpointURL().Host, code, err)
	}
	return fmt.Errorf("%s the bucket %s of %s: %w", doing, b.bucket, b.client.EndpointURL().Host, err)
}
