package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
)

// validateWebhooks finds webhooks that cannot be called.
func validateWebhooks(configuration *configv1alpha1.ResourceInterpreterWebhookConfiguration) field.ErrorList {
	var errs field.ErrorList
	for i := range configuration.Webhooks {
		hook, path := &configuration.Webhooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, validation.IsFullyQualifiedName(path.Child("name"), hook.Name)...)
		errs = append(errs, validateAddress(hook, path.Child("clientConfig"))...)
		if version := configv1alpha1.GroupVersion.Version; !slices.Contains(hook.InterpreterContextVersions, version) {
			errs = append(errs, field.Invalid(path.Child("interpreterContextVersions"), hook.InterpreterContextVersions,
				"must include "+version+", the only version there is"))
		}
		for j, rule := range hook.Rules {
			errs = append(errs, validateRule(rule, path.Child("rules").Index(j))...)
		}
	}
	return errs
}

func validateAddress(hook *configv1alpha1.ResourceInterpreterWebhook, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if hook.ClientConfig.URL != nil {
		errs = append(errs, webhook.ValidateWebhookURL(path.Child("url"), *hook.ClientConfig.URL, true)...)
	}
	if service := hook.ClientConfig.Service; service != nil {
		errs = append(errs, webhook.ValidateWebhookService(path.Child("service"), service.Namespace, service.Name, service.Path, ptr.Deref(service.Port, 443))...)
	}
	if len(hook.ClientConfig.CABundle) > 0 {
		errs = append(errs, webhook.ValidateCABundle(path.Child("caBundle"), hook.ClientConfig.CABundle)...)
	}
	return errs
}

func validateRule(rule configv1alpha1.RuleWithOperations, path *field.Path) field.ErrorList {
	known := []configv1alpha1.InterpreterOperation{
		configv1alpha1.InterpreterOperationAggregateStatus, configv1alpha1.InterpreterOperationInterpretComponent,
		configv1alpha1.InterpreterOperationInterpretDependency, configv1alpha1.InterpreterOperationInterpretHealth,
		configv1alpha1.InterpreterOperationInterpretReplica, configv1alpha1.InterpreterOperationInterpretStatus,
		configv1alpha1.InterpreterOperationRetain, configv1alpha1.InterpreterOperationReviseReplica,
	}
	operations := make([]string, len(rule.Operations))
	var errs field.ErrorList
	for i, operation := range rule.Operations {
		operations[i] = string(operation)
		if operation != configv1alpha1.InterpreterOperationAll && !slices.Contains(known, operation) {
			errs = append(errs, field.NotSupported(path.Child("operations").Index(i), operation, append(known, configv1alpha1.InterpreterOperationAll)))
		}
	}
	errs = append(errs, validateChoice(operations, path.Child("operations"))...)
	errs = append(errs, validateChoice(rule.APIGroups, path.Child("apiGroups"))...)
	errs = append(errs, validateChoice(rule.APIVersions, path.Child("apiVersions"))...)
	errs = append(errs, validateChoice(rule.Kinds, path.Child("kinds"))...)
	for i, kind := range rule.Kinds {
		if strings.Contains(kind, "/") {
			errs = append(errs, field.Invalid(path.Child("kinds").Index(i), kind, "must be a kind: webhooks are not called for subresources"))
		}
	}
	return errs
}

// validateChoice checks a list of which one has to match: without entries none does, and "*" is every value.
func validateChoice(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, fmt.Sprintf("name what to ask about, or %q for all", "*"))}
	}
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(path, list, `"*" must be alone`)}
	}
	return nil
}
