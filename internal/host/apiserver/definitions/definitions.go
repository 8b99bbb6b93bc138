package definitions

import (
	"context"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/flagship-k8s/flagship/api/crds"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/works"
)

// definitionPoll is how often a starting server checks whether its kinds are served.
const definitionPoll = 20 * time.Millisecond

// Install makes the server serve our kinds as this binary defines them, and returns when it does.
// A definition that is there already as it should be is left alone.
func Install(ctx context.Context, config *rest.Config) error {
	definitions, err := crds.All()
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client for definitions: %w", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, definition := range definitions {
		if definition.Spec.Group == works.Group {
			continue // Served natively.
		}
		group.Go(func() error {
			if err := install(groupCtx, client, definition); err != nil {
				return fmt.Errorf("installing %s: %w", definition.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return awaitServed(ctx, config, definitions)
}

// EstablishPending finishes what a server that was killed had begun. That a definition whose names are accepted is to be
// established is kept in memory only; upstream checks it again after five minutes.
func EstablishPending(ctx context.Context, config *rest.Config) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client for definitions: %w", err)
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	definitions, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing definitions: %w", err)
	}
	for i := range definitions.Items {
		definition := &definitions.Items[i]
		condition := apihelpers.FindCRDCondition(definition, apiextensionsv1.Established)
		if condition == nil || condition.Reason != installing || definition.DeletionTimestamp != nil ||
			!apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.NamesAccepted) {
			continue
		}
		apihelpers.SetCRDCondition(definition, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		})
		_, err := api.UpdateStatus(ctx, definition, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("establishing %s: %w", definition.Name, err)
		}
	}
	return nil
}

// installing is the reason of a definition that is about to be established.
const installing = "Installing"

func install(ctx context.Context, client clientset.Interface, wanted *apiextensionsv1.CustomResourceDefinition) error {
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&wanted.Spec)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := api.Get(ctx, wanted.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = api.Create(ctx, wanted, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), wanted.Name, err)
			}
			return err
		}
		if err != nil {
			return err
		}
		changed := found.DeepCopy()
		changed.Spec = wanted.Spec
		changed.Spec.PreserveUnknownFields = found.Spec.PreserveUnknownFields
		changed.Labels = merged(found.Labels, wanted.Labels)
		changed.Annotations = merged(found.Annotations, wanted.Annotations)
		if apiequality.Semantic.DeepEqual(changed, found) {
			return nil
		}
		_, err = api.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
}

// merged is have with every key of want set as want has it.
func merged(have, want map[string]string) map[string]string {
	if len(want) == 0 {
		return have
	}
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, want)
	return all
}

// awaitServed waits until discovery lists every version of every definition: Established comes earlier
// than that.
func awaitServed(ctx context.Context, config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	var missing sets.Set[schema.GroupVersionResource]
	err = wait.PollUntilContextCancel(ctx, definitionPoll, true, func(context.Context) (bool, error) {
		missing = wantedResources(definitions)
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
			return false, nil // the API server is starting
		}
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				continue
			}
			for _, resource := range list.APIResources {
				missing.Delete(gv.WithResource(resource.Name))
			}
		}
		return missing.Len() == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d kinds to be served: %w", missing.Len(), err)
	}
	return nil
}

func wantedResources(definitions []*apiextensionsv1.CustomResourceDefinition) sets.Set[schema.GroupVersionResource] {
	wanted := sets.New[schema.GroupVersionResource]()
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if version.Served {
				wanted.Insert(schema.GroupVersionResource{
					Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural,
				})
			}
		}
	}
	return wanted
}
