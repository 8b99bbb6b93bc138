package enroll

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Results of a renewal.
const (
	renewalByToken        = "ok"
	renewalByRenewalToken = "ok_with_renewal_token"
	renewalFailed         = "failed"
)

type metrics struct {
	expiry   *prometheus.GaugeVec
	due      *prometheus.GaugeVec
	renewals *prometheus.CounterVec
}

// newMetrics registers them, unless the registerer is nil.
func newMetrics(r prometheus.Registerer) *metrics {
	with := promauto.With(r)
	return &metrics{
		expiry: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_credential_expiry_timestamp_seconds",
			Help: "When the token for a cluster expires, in seconds since 1970, by use: controller or impersonator. Absent for tokens without expiry.",
		}, []string{"cluster", "use"}),
		due: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_credential_renewal_timestamp_seconds",
			Help: "When the token for a cluster is to be renewed, after a third of its life, in seconds since 1970, by use. In the past while renewals fail.",
		}, []string{"cluster", "use"}),
		renewals: with.NewCounterVec(prometheus.CounterOpts{
			Name: "flagship_credential_renewals_total",
			Help: "Requests of new tokens for clusters, by result: ok, ok_with_renewal_token if the cluster did not accept the token, or failed.",
		}, []string{"result"}),
	}
}

// token notes when the token for a cluster is to be renewed, and when it expires.
func (m *metrics) token(cluster string, use clusterv1alpha1.CredentialUse, token memberaccount.Life) {
	if token.Ends.IsZero() {
		m.expiry.DeleteLabelValues(cluster, string(use))
		m.due.DeleteLabelValues(cluster, string(use))
		return
	}
	m.due.WithLabelValues(cluster, string(use)).Set(float64(token.Renewal().Unix()))
	m.expiry.WithLabelValues(cluster, string(use)).Set(float64(token.Ends.Unix()))
}

// forget drops what is noted of a cluster that is no member any more.
func (m *metrics) forget(cluster string) {
	m.expiry.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	m.due.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
}

func (m *metrics) renewal(result string) { m.renewals.WithLabelValues(result).Inc() }
