// Package autoscaling finds the autoscalers of a preview among its templates, for the loop over what they scale. That of a control plane
// reads them from a cache, which a change is not in.
package autoscaling
