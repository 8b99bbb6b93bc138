package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/knowledge/version"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/gather"
	"github.com/flagship-k8s/flagship/internal/tools/cli/support/redact"
)

const (
	pageSize = 500
	maxLog   = 5 << 20
)

// Entry is one file of a bundle.
type Entry struct {
	Name, Content string
	// Fault is why it could not be read, or not completely; "" if it was.
	Fault string
}

// source makes the content of one file.
type source struct {
	name, content string
	read          func(context.Context) ([]byte, error)
}

// Write writes a bundle as a tar.gz, and returns what is in it. What cannot be read is listed with the reason.
func Write(ctx context.Context, to io.Writer, o Options) ([]Entry, error) {
	sources, err := sourcesOf(o)
	if err != nil {
		return nil, err
	}
	compressed := gzip.NewWriter(to)
	archive := tar.NewWriter(compressed)
	add := func(name string, content []byte) error {
		header := &tar.Header{Name: "flagship-support/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: o.Clock.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	var entries []Entry
	for _, s := range sources {
		content, err := s.read(ctx)
		entry := Entry{Name: s.name, Content: s.content}
		if err != nil {
			entry.Fault = redact.Text(err.Error())
		}
		entries = append(entries, entry)
		if err := add(s.name, []byte(redact.Text(string(content)))); err != nil {
			return nil, fmt.Errorf("writing the bundle: %w", err)
		}
	}
	if err := errors.Join(add("README.md", readme(entries)), archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("writing the bundle: %w", err)
	}
	return entries, nil
}

// readme lists the files.
func readme(entries []Entry) []byte {
	var b bytes.Buffer
	b.WriteString("# Support bundle of Flagship\n\nMade by 'flagship support-bundle' with the rights of its caller. Secrets, tokens, keys and the values in manifests are left out;\n" +
		"`" + redact.Removed + "` stands in their place. Names of objects, namespaces, clusters and hosts are in it.\n\n| file | content | |\n|---|---|---|\n")
	for _, e := range entries {
		fault := strings.Join(strings.Fields(e.Fault), " ")
		if fault != "" {
			fault = "not complete: " + fault
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Name, e.Content, fault)
	}
	return b.Bytes()
}

func sourcesOf(o Options) ([]source, error) {
	raw, err := gather.RawClient(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	objects, err := dynamic.NewForConfig(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	sources := []source{
		{"version.json", "version of this program", func(context.Context) ([]byte, error) { return json.MarshalIndent(version.Get(), "", "  ") }},
		{"server-version.json", "version of the control plane", page(raw, "/version")},
		{"doctor.txt", "results of 'flagship doctor'", func(ctx context.Context) ([]byte, error) {
			facts, err := doctor.Facts(ctx, o.Hub, o.Timeout, o.MemberTimeout)
			if err != nil {
				return nil, err
			}
			return []byte(doctor.Text(checks.Run(facts))), nil
		}},
		{"readyz.txt", "what is ready and what is not", page(raw, "/readyz", "verbose", "true")},
		{"metrics.txt", "all metrics of the control plane", page(raw, "/metrics")},
		{"goroutines.txt", "what the process does; needs --profiling", page(raw, "/debug/pprof/goroutine", "debug", "1")},
		{"flags.txt", "command line of the control plane on this machine; values that are texts are left out", func(context.Context) ([]byte, error) { return flags(o.DataDir) }},
		{"log.txt", "the end of its log", func(context.Context) ([]byte, error) { return tail(o.LogFile) }},
	}
	for _, kind := range []struct {
		file     string
		resource schema.GroupVersionResource
	}{
		{"clusters.yaml", clusterv1alpha1.GroupVersion.WithResource("clusters")},
		{"propagationpolicies.yaml", policyv1alpha1.GroupVersion.WithResource("propagationpolicies")},
		{"clusterpropagationpolicies.yaml", policyv1alpha1.GroupVersion.WithResource("clusterpropagationpolicies")},
		{"overridepolicies.yaml", policyv1alpha1.GroupVersion.WithResource("overridepolicies")},
		{"clusteroverridepolicies.yaml", policyv1alpha1.GroupVersion.WithResource("clusteroverridepolicies")},
		{"resourcebindings.yaml", workv1alpha2.GroupVersion.WithResource("resourcebindings")},
		{"clusterresourcebindings.yaml", workv1alpha2.GroupVersion.WithResource("clusterresourcebindings")},
		{"works.yaml", workv1alpha1.GroupVersion.WithResource("works")},
		{"events.yaml", schema.GroupVersionResource{Version: "v1", Resource: "events"}},
	} {
		sources = append(sources, source{kind.file, kind.resource.Resource + " with their conditions", func(ctx context.Context) ([]byte, error) {
			return list(ctx, objects.Resource(kind.resource), o)
		}})
	}
	return sources, nil
}

// page reads what the control plane answers on a path.
func page(raw rest.Interface, path string, parameters ...string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		request := raw.Get().AbsPath(path).MaxRetries(0)
		for i := 0; i+1 < len(parameters); i += 2 {
			request.Param(parameters[i], parameters[i+1])
		}
		return request.DoRaw(ctx)
	}
}

// list reads the objects of a kind, as YAML documents.
func list(ctx context.Context, objects dynamic.NamespaceableResourceInterface, o Options) ([]byte, error) {
	var b bytes.Buffer
	options := metav1.ListOptions{Limit: pageSize}
	for n := 0; ; {
		found, err := objects.List(ctx, options)
		if err != nil {
			return b.Bytes(), err
		}
		for i := range found.Items {
			if n++; n > o.MaxObjects {
				return b.Bytes(), fmt.Errorf("there are more than the %d objects of --max-objects", o.MaxObjects)
			}
			text, err := yaml.Marshal(redact.Object(&found.Items[i], o.Manifests))
			if err != nil {
				return b.Bytes(), err
			}
			b.WriteString("---\n")
			b.Write(text)
		}
		if options.Continue = found.GetContinue(); options.Continue == "" {
			return b.Bytes(), nil
		}
	}
}

// flags reads the command line of the process that has a data directory.
func flags(dataDir string) ([]byte, error) {
	if dataDir == "" {
		return nil, errors.New("no --data-dir was given")
	}
	pid, err := datadir.Holder(dataDir)
	if err != nil {
		return nil, err
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, fmt.Errorf("reading the command line of process %d: %w", pid, err)
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	if !strings.HasPrefix(filepath.Base(args[0]), "flagship") { // the number may be that of another process now
		return nil, fmt.Errorf("process %d is no control plane", pid)
	}
	return []byte(strings.Join(redact.Flags(args), "\n") + "\n"), nil
}

// tail reads the end of a log, from the beginning of a line on.
func tail(path string) (_ []byte, err error) {
	if path == "" {
		return nil, errors.New("no --log-file was given")
	}
	file, err := os.Open(path) //nolint:gosec // the caller names the file to add
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	start := max(info.Size()-maxLog, 0)
	if _, err := file.Seek(start, io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxLog))
	if start > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, err
}
