package pending

import (
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// AwaitsClaims returns whether the present result was chosen while a claim that the object names did not exist.
func AwaitsClaims(b workv1alpha2.Binding) bool {
	return b.GetAnnotations()[workv1alpha2.AwaitsClaimsAnnotation] != ""
}

// Claims are the bindings that await claims. It is safe for concurrent use; the zero value is empty.
type Claims struct {
	mu sync.Mutex
	// dependencies has the annotation that lists what the object of each binding refers to, in JSON.
	dependencies map[types.NamespacedName]string
}

// Update adds a binding or removes it.
func (c *Claims) Update(b workv1alpha2.Binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !AwaitsClaims(b) {
		delete(c.dependencies, client.ObjectKeyFromObject(b))
		return
	}
	if c.dependencies == nil {
		c.dependencies = map[types.NamespacedName]string{}
	}
	c.dependencies[client.ObjectKeyFromObject(b)] = b.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
}

// Remove removes a binding, if it is there.
func (c *Claims) Remove(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dependencies, key)
}

// Naming lists the bindings that may name a claim. It compares names as text, which finds all of them and few others.
func (c *Claims) Naming(claim types.NamespacedName) []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []types.NamespacedName
	for key, dependencies := range c.dependencies {
		if key.Namespace == claim.Namespace && strings.Contains(dependencies, strconv.Quote(claim.Name)) {
			out = append(out, key)
		}
	}
	return out
}
