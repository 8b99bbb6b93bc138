package access

import (
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// beforeWebhooks is the built-in plugin that in-process plugins are put in front of: what webhooks and
// policies see is what the in-process plugins made of it.
const beforeWebhooks = "MutatingAdmissionPolicy"

// eventLimitName is the name of eventRateLimit in the admission chain.
const eventLimitName = "FlagshipEventRateLimit"

// AdmissionPlugin is an in-process admission plugin: it implements admission.MutationInterface,
// admission.ValidationInterface or both.
type AdmissionPlugin struct {
	// Name is unique in the chain and shows in metrics.
	Name string
	// Handler is asked about every write it says it handles.
	Handler admission.Interface
}

// Admit adds the in-process plugins to the admission chain, and turns off the built-in ones that a hub does not need.
func Admit(o *options.ServerRunOptions, plugins []AdmissionPlugin, isHub bool) {
	generic := o.Admission.GenericAdmission
	order := slices.Clone(generic.RecommendedPluginOrder)
	at := slices.Index(order, beforeWebhooks)
	for _, plugin := range plugins {
		generic.Plugins.Register(plugin.Name, func(io.Reader) (admission.Interface, error) {
			return plugin.Handler, nil
		})
		order = slices.Insert(order, at, plugin.Name)
		at++
	}
	if isHub {
		// The name differs from that of Kubernetes' own plugin, which is off.
		generic.Plugins.Register(eventLimitName, func(io.Reader) (admission.Interface, error) { return newEventRateLimit() })
		order = append(order, eventLimitName)
		generic.DefaultOffPlugins = sets.New(generic.RecommendedPluginOrder...).Difference(hubPlugins())
	}
	generic.RecommendedPluginOrder = order
}

// hubPlugins are the built-in admission plugins a hub needs. The others change or refuse objects for
// the sake of the cluster they are stored in, but a hub's objects are meant for other clusters.
func hubPlugins() sets.Set[string] {
	return sets.New(
		"NamespaceLifecycle",
		"MutatingAdmissionPolicy",
		"MutatingAdmissionWebhook",
		"ValidatingAdmissionPolicy",
		"ValidatingAdmissionWebhook",
		"CertificateApproval",
		"CertificateSigning",
		"CertificateSubjectRestriction",
		"ClusterTrustBundleAttest",
	)
}
