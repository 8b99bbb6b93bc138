package apiserver

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

// admit chooses the admission plugins and adds the in-process ones to the chain.
func admit(o *options.ServerRunOptions, cfg Config) {
	generic := o.Admission.GenericAdmission
	order := slices.Clone(generic.RecommendedPluginOrder)
	at := slices.Index(order, beforeWebhooks)
	for _, plugin := range cfg.Admission {
		generic.Plugins.Register(plugin.Name, func(io.Reader) (admission.Interface, error) {
			return plugin.Handler, nil
		})
		order = slices.Insert(order, at, plugin.Name)
		at++
	}
	if cfg.Role == Hub {
		// The name differs from that of Kubernetes' own plugin, which is off.
		generic.Plugins.Register(eventLimitName, func(io.Reader) (admission.Interface, error) { return newEventRateLimit() })
		order = append(order, eventLimitName)
		generic.DefaultOffPlugins = sets.New(generic.RecommendedPluginOrder...).Difference(hubPlugins())
	}
	generic.RecommendedPluginOrder = order
}
