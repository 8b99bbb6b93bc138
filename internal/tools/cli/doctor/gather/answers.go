package gather

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
)

var errNoAnswer = errors.New("the control plane does not answer")

// RawClient returns a client for paths.
func RawClient(config *rest.Config) (rest.Interface, error) {
	plain := rest.CopyConfig(config)
	plain.GroupVersion = &schema.GroupVersion{}
	plain.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	return rest.UnversionedRESTClientFor(plain)
}

// answer reads /readyz, which answers with an error and its text if something is not ready.
func (r *reader) answer(ctx context.Context, f *checks.Facts) {
	text, err := r.raw.Get().AbsPath("/readyz").Param("verbose", "true").MaxRetries(0).DoRaw(ctx)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "[-]") {
			f.Ready.Value = append(f.Ready.Value, strings.TrimSpace(strings.TrimPrefix(line, "[-]")))
		}
	}
	if err != nil && len(f.Ready.Value) == 0 && !apierrors.IsForbidden(err) {
		f.Ready.Err = err
	}
}

func (r *reader) version(ctx context.Context) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(r.Hub)
	if err != nil {
		return "", err
	}
	var info *version.Info
	if info, err = client.ServerVersionWithContext(ctx); err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// metrics reads /metrics; who may read only the control plane's own gets these.
func (r *reader) metrics(ctx context.Context) (checks.Metrics, error) {
	text, err := r.raw.Get().AbsPath("/metrics").DoRaw(ctx)
	if apierrors.IsForbidden(err) {
		text, err = r.raw.Get().AbsPath("/metrics/flagship").DoRaw(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

// ParseMetrics reads gauges and counters in the text format of Prometheus. Other types are left out.
func ParseMetrics(text []byte) (checks.Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	found := checks.Metrics{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			sample := checks.Sample{Labels: map[string]string{}}
			switch {
			case m.GetGauge() != nil:
				sample.Value = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				sample.Value = m.GetCounter().GetValue()
			default:
				continue
			}
			for _, label := range m.GetLabel() {
				sample.Labels[label.GetName()] = label.GetValue()
			}
			found[name] = append(found[name], sample)
		}
	}
	return found, nil
}

// certificates returns what the control plane presents and what the caller presents to it, and the time of the control plane.
func (r *reader) certificates(ctx context.Context) (found []checks.Certificate, hubTime time.Time, err error) {
	httpClient, err := rest.HTTPClientFor(r.Hub)
	if err != nil {
		return nil, time.Time{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.Hub.Host, "/")+"/livez", nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, time.Time{}, err
	}
	_ = response.Body.Close()
	if hubTime, err = http.ParseTime(response.Header.Get("Date")); err != nil {
		return nil, time.Time{}, err
	}
	found = append(found, presented(response.TLS)...)
	for _, c := range []struct {
		of, file string
		data     []byte
	}{
		{"the client certificate of the kubeconfig", r.Hub.CertFile, r.Hub.CertData},
		{"the certificate authority in the kubeconfig", r.Hub.CAFile, r.Hub.CAData},
	} {
		if len(c.data) == 0 && c.file != "" {
			if c.data, err = os.ReadFile(c.file); err != nil {
				return nil, time.Time{}, err
			}
		}
		if block, _ := pem.Decode(c.data); block != nil {
			parsed, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, time.Time{}, fmt.Errorf("%s: %w", c.of, err)
			}
			found = append(found, checks.Certificate{Of: c.of, Expires: parsed.NotAfter})
		}
	}
	return found, hubTime, nil
}

func presented(state *tls.ConnectionState) []checks.Certificate {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return []checks.Certificate{{Of: "the serving certificate of the control plane", Expires: state.PeerCertificates[0].NotAfter}}
}
