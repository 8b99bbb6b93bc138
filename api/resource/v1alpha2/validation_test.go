package v1alpha2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// causes are the kinds and paths of errors, sorted.
func causes(errs field.ErrorList) []string {
	found := []string{}
	for _, err := range errs {
		found = append(found, string(err.Type)+" "+err.Field)
	}
	slices.Sort(found)
	return found
}

func check(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), causes(errs)); diff != "" {
		t.Errorf("wanted (-), got (+):\n%s", diff)
	}
}

func pending() *v1alpha2.ResourceClaim {
	return &v1alpha2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns", ResourceVersion: "1"},
		Spec: v1alpha2.ResourceClaimSpec{
			ResourceClassName: "class", AllocationMode: v1alpha2.AllocationModeWaitForFirstConsumer,
		},
	}
}

func allocated(shareable bool, consumers ...string) *v1alpha2.ResourceClaim {
	claim := pending()
	claim.Status.DriverName = "driver.example.com"
	claim.Status.Allocation = &v1alpha2.AllocationResult{Shareable: shareable}
	for _, consumer := range consumers {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, v1alpha2.ResourceClaimConsumerReference{
			Resource: "pods", Name: consumer, UID: types.UID("uid-" + consumer),
		})
	}
	return claim
}

func deallocating(shareable bool, consumers ...string) *v1alpha2.ResourceClaim {
	claim := allocated(shareable, consumers...)
	claim.Status.DeallocationRequested = true
	return claim
}

func deleted(claim *v1alpha2.ResourceClaim) *v1alpha2.ResourceClaim {
	claim.DeletionTimestamp = &metav1.Time{}
	return claim
}

func TestStatusTransitions(t *testing.T) {
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	edited := allocated(true, "a")
	edited.Status.ReservedFor[0].Name = "b"
	elsewhere := allocated(false)
	elsewhere.Status.DriverName = "other.example.com"
	freed := pending()
	requestOnly := pending()
	requestOnly.Status.DeallocationRequested = true
	reservedOnly := allocated(false, "a")
	reservedOnly.Status.Allocation = nil
	driverless := allocated(false)
	driverless.Status.DriverName = ""
	const reserved, requested = "status.reservedFor", "status.deallocationRequested"
	for reason, test := range map[string]struct {
		old, new *v1alpha2.ResourceClaim
		want     []string
	}{
		"a driver allocates":                           {pending(), allocated(false), nil},
		"allocated and reserved at once":               {pending(), allocated(false, "a"), nil},
		"allocated with deallocation requested":        {pending(), deallocating(false), nil},
		"an exclusive claim changes hands":             {allocated(false, "a"), allocated(false, "b"), nil},
		"a shareable claim is shared":                  {allocated(true, "a"), allocated(true, "a", "b"), nil},
		"32 consumers":                                 {allocated(true), allocated(true, many[:32]...), nil},
		"33 consumers":                                 {allocated(true), allocated(true, many...), []string{"FieldValueTooMany " + reserved}},
		"the last consumer goes, then deallocation":    {allocated(false, "a"), deallocating(false), nil},
		"a consumer goes during deallocation":          {deallocating(true, "a", "b"), deallocating(true, "a"), nil},
		"freed after a request":                        {deallocating(false), freed, nil},
		"freed without a request":                      {allocated(false), freed, nil},
		"the driver's name changes":                    {allocated(false), elsewhere, nil},
		"allocated while being deleted":                {deleted(pending()), deleted(allocated(false)), nil},
		"allocation without a driver":                  {pending(), driverless, []string{"FieldValueRequired status.driverName"}},
		"a consumer of nothing":                        {pending(), reservedOnly, []string{"FieldValueForbidden " + reserved}},
		"two consumers of an exclusive claim":          {allocated(false, "a"), allocated(false, "a", "b"), []string{"FieldValueForbidden " + reserved}},
		"a new consumer during deallocation":           {deallocating(true, "a"), deallocating(true, "a", "b"), []string{"FieldValueForbidden " + reserved}},
		"a new consumer of what is being deleted":      {deleted(allocated(true)), deleted(allocated(true, "a")), []string{"FieldValueForbidden " + reserved}},
		"an edited consumer of what is being deleted":  {deleted(allocated(true, "a")), deleted(edited), []string{"FieldValueForbidden " + reserved}},
		"the allocation changes":                       {allocated(false), allocated(true), []string{"FieldValueInvalid status.allocation"}},
		"deallocation while it is reserved":            {allocated(false, "a"), deallocating(false, "a"), []string{"FieldValueForbidden " + requested}},
		"deallocation without an allocation":           {pending(), requestOnly, []string{"FieldValueForbidden status"}},
		"the request is taken back, but nothing freed": {deallocating(false), allocated(false), []string{"FieldValueForbidden " + requested}},
	} {
		t.Run(reason, func(t *testing.T) {
			check(t, v1alpha2.ValidateClaimStatusUpdate(test.new, test.old), test.want...)
		})
	}
}

func TestStatusContent(t *testing.T) {
	const handle, nodes = "status.allocation.resourceHandles[0]", "status.allocation.availableOnNodes.nodeSelectorTerms"
	term := func(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelector {
		return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: expressions}}}
	}
	fields := func(requirements ...corev1.NodeSelectorRequirement) corev1.NodeSelector {
		return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: requirements}}}
	}
	one := func(handle v1alpha2.ResourceHandle) func(*v1alpha2.AllocationResult) {
		return func(a *v1alpha2.AllocationResult) { a.ResourceHandles = []v1alpha2.ResourceHandle{handle} }
	}
	on := func(selector corev1.NodeSelector) func(*v1alpha2.AllocationResult) {
		return func(a *v1alpha2.AllocationResult) { a.AvailableOnNodes = &selector }
	}
	handles := func(n int) func(*v1alpha2.AllocationResult) {
		return func(a *v1alpha2.AllocationResult) {
			a.ResourceHandles = slices.Repeat([]v1alpha2.ResourceHandle{{DriverName: "d"}}, n)
		}
	}
	for reason, test := range map[string]struct {
		set  func(*v1alpha2.AllocationResult)
		want []string
	}{
		"32 equal handles":      {handles(32), nil},
		"33 handles":            {handles(33), []string{"FieldValueTooMany status.allocation.resourceHandles"}},
		"16384 bytes of data":   {one(v1alpha2.ResourceHandle{DriverName: "d", Data: strings.Repeat("x", 16384)}), nil},
		"more bytes of data":    {one(v1alpha2.ResourceHandle{DriverName: "d", Data: strings.Repeat("ü", 8193)}), []string{"FieldValueTooLong " + handle + ".data"}},
		"upper case driver":     {one(v1alpha2.ResourceHandle{DriverName: "GPU.Example.com"}), nil},
		"driver of 63 bytes":    {one(v1alpha2.ResourceHandle{DriverName: strings.Repeat("d", 63)}), nil},
		"driver of 64 bytes":    {one(v1alpha2.ResourceHandle{DriverName: strings.Repeat("d", 64)}), []string{"FieldValueTooLong " + handle + ".driverName"}},
		"no driver in a handle": {one(v1alpha2.ResourceHandle{}), []string{"FieldValueInvalid " + handle + ".driverName", "FieldValueRequired " + handle + ".driverName"}},
		"data in two forms": {one(v1alpha2.ResourceHandle{DriverName: "d", Data: "x", StructuredData: &v1alpha2.StructuredResourceHandle{}}),
			[]string{"FieldValueInvalid " + handle}},
		"a result without model": {one(v1alpha2.ResourceHandle{DriverName: "d", StructuredData: &v1alpha2.StructuredResourceHandle{
			NodeName: "Bad_Node", Results: []v1alpha2.DriverAllocationResult{{}},
		}}), []string{"FieldValueInvalid " + handle + ".structuredData.nodeName", "FieldValueRequired " + handle + ".structuredData.results[0]"}},
		"no terms":     {on(corev1.NodeSelector{}), []string{"FieldValueRequired " + nodes}},
		"an empty one": {on(term()), nil},
		"every operator with its values": {on(term(
			corev1.NodeSelectorRequirement{Key: "k", Operator: "In", Values: []string{"a"}},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "NotIn", Values: []string{"a", "b"}},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "Exists"},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "DoesNotExist"},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "Gt", Values: []string{"1"}},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "Lt", Values: []string{"1"}},
		)), nil},
		"every operator without": {on(term(
			corev1.NodeSelectorRequirement{Key: "k", Operator: "In"},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "Exists", Values: []string{"a"}},
			corev1.NodeSelectorRequirement{Key: "k", Operator: "Gt", Values: []string{"1", "2"}},
			corev1.NodeSelectorRequirement{Key: "bad key", Operator: "Like"},
		)), []string{
			"FieldValueForbidden " + nodes + "[0].matchExpressions[1].values", "FieldValueInvalid " + nodes + "[0].matchExpressions[3].key",
			"FieldValueInvalid " + nodes + "[0].matchExpressions[3].operator", "FieldValueRequired " + nodes + "[0].matchExpressions[0].values",
			"FieldValueRequired " + nodes + "[0].matchExpressions[2].values",
		}},
		"the name of a node": {on(fields(corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"n"}})), nil},
		"other fields of a node": {on(fields(
			corev1.NodeSelectorRequirement{Key: "spec.x", Operator: "In", Values: []string{"n"}},
			corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "NotIn", Values: []string{"n", "m"}},
			corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "Exists"},
			corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: "In", Values: []string{"Bad_Node"}},
		)), []string{
			"FieldValueInvalid " + nodes + "[0].matchFields[0].key", "FieldValueInvalid " + nodes + "[0].matchFields[2].operator",
			"FieldValueInvalid " + nodes + "[0].matchFields[3].values[0]", "FieldValueRequired " + nodes + "[0].matchFields[1].values",
		}},
	} {
		t.Run(reason, func(t *testing.T) {
			claim := allocated(false)
			test.set(claim.Status.Allocation)
			check(t, v1alpha2.ValidateClaimStatusUpdate(claim, pending()), test.want...)
		})
	}
}

func TestConsumers(t *testing.T) {
	claim := allocated(true)
	claim.Status.ReservedFor = []v1alpha2.ResourceClaimConsumerReference{
		{Resource: "pods", Name: "a", UID: "u"}, {Resource: "pods", Name: "a", UID: "v"}, {UID: "u"}, {},
	}
	check(t, v1alpha2.ValidateClaimStatusUpdate(claim, pending()), "FieldValueDuplicate status.reservedFor[2].uid",
		"FieldValueRequired status.reservedFor[3].name", "FieldValueRequired status.reservedFor[3].resource", "FieldValueRequired status.reservedFor[3].uid")
}

func TestSpec(t *testing.T) {
	for reason, test := range map[string]struct {
		set  func(*v1alpha2.ResourceClaim)
		want []string
	}{
		"as it is":     {func(*v1alpha2.ResourceClaim) {}, nil},
		"no class":     {func(c *v1alpha2.ResourceClaim) { c.Spec.ResourceClassName = "" }, []string{"FieldValueInvalid spec.resourceClassName"}},
		"another mode": {func(c *v1alpha2.ResourceClaim) { c.Spec.AllocationMode = "immediate" }, []string{"FieldValueNotSupported spec.allocationMode"}},
		"bad name":     {func(c *v1alpha2.ResourceClaim) { c.Name = "Bad_Name" }, []string{"FieldValueInvalid metadata.name"}},
		"no kind, no name": {func(c *v1alpha2.ResourceClaim) {
			c.Spec.ParametersRef = &v1alpha2.ResourceClaimParametersReference{APIGroup: "anything goes"}
		}, []string{"FieldValueRequired spec.parametersRef.kind", "FieldValueRequired spec.parametersRef.name"}},
	} {
		t.Run(reason, func(t *testing.T) {
			claim := pending()
			test.set(claim)
			check(t, v1alpha2.ValidateClaim(claim), test.want...)
		})
	}
	changed := pending()
	changed.Spec.ResourceClassName = "other"
	check(t, v1alpha2.ValidateClaimUpdate(changed, pending()), "FieldValueInvalid spec")
	changed.Spec.AllocationMode = "x"
	check(t, v1alpha2.ValidateClaimUpdate(changed, pending()), "FieldValueInvalid spec", "FieldValueNotSupported spec.allocationMode")
}

func TestOtherKinds(t *testing.T) {
	class := &v1alpha2.ResourceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	check(t, v1alpha2.ValidateClass(class), "FieldValueInvalid driverName", "FieldValueRequired driverName")
	class.DriverName, class.SuitableNodes = "d", &corev1.NodeSelector{}
	class.ParametersRef = &v1alpha2.ResourceClassParametersReference{Namespace: "Bad"}
	check(t, v1alpha2.ValidateClass(class), "FieldValueInvalid parametersRef.namespace", "FieldValueRequired parametersRef.kind",
		"FieldValueRequired parametersRef.name", "FieldValueRequired suitableNodes.nodeSelectorTerms")

	template := &v1alpha2.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns", ResourceVersion: "1"}}
	template.Spec.Spec = pending().Spec
	template.Spec.Labels = map[string]string{"a": "1"}
	check(t, v1alpha2.ValidateTemplate(template))
	changed := template.DeepCopy()
	changed.Spec.Annotations = map[string]string{"a": "1"}
	check(t, v1alpha2.ValidateTemplateUpdate(changed, template), "FieldValueInvalid spec")
	template.Spec.Name, template.Spec.Finalizers = "x", []string{"y/z"}
	check(t, v1alpha2.ValidateTemplate(template), "FieldValueForbidden spec.metadata.finalizers", "FieldValueForbidden spec.metadata.name")

	scheduling := &v1alpha2.PodSchedulingContext{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", ResourceVersion: "1"}}
	scheduling.Spec.PotentialNodes = []string{"n1", "n2", "n1", "Bad_Node"}
	check(t, v1alpha2.ValidateSchedulingContext(scheduling), "FieldValueDuplicate spec.potentialNodes[2]", "FieldValueInvalid spec.potentialNodes[3]")
	scheduling.Spec.PotentialNodes = nil
	for i := range 129 {
		scheduling.Spec.PotentialNodes = append(scheduling.Spec.PotentialNodes, fmt.Sprint("n", i))
	}
	check(t, v1alpha2.ValidateSchedulingContext(scheduling), "FieldValueTooMany spec.potentialNodes")
	scheduling.Status.ResourceClaims = []v1alpha2.ResourceClaimSchedulingStatus{
		{Name: "a", UnsuitableNodes: []string{"n", "n"}}, {Name: "a", UnsuitableNodes: scheduling.Spec.PotentialNodes},
	}
	check(t, v1alpha2.ValidateSchedulingContextStatusUpdate(scheduling, scheduling), "FieldValueDuplicate status.claims[0].unsuitableNodes[1]",
		"FieldValueDuplicate status.claims[1]", "FieldValueTooMany status.claims[1].unsuitableNodes")
}

// A finalizer without a domain has the causes of built-in kinds: one when an object is made, one of each check when it is changed.
func TestFinalizersHaveADomain(t *testing.T) {
	const wrong = "FieldValueInvalid metadata.finalizers[1]"
	finalizers := []string{"example.com/x", "x", "orphan", "kubernetes"}
	claim := pending()
	claim.Finalizers = finalizers
	check(t, v1alpha2.ValidateClaim(claim), wrong)
	check(t, v1alpha2.ValidateClaimUpdate(claim, pending()), wrong, wrong)
	check(t, v1alpha2.ValidateClaimStatusUpdate(claim, pending()), wrong)
	errs := v1alpha2.ValidateClaim(claim)
	if len(errs) != 1 || errs[0].Detail != "name is neither a standard finalizer name nor is it fully qualified" || errs[0].BadValue != "x" {
		t.Errorf("got %v", errs)
	}
	claim.Finalizers = []string{"x", "a b"}
	check(t, v1alpha2.ValidateClaim(claim), "FieldValueInvalid metadata.finalizers", "FieldValueInvalid metadata.finalizers[0]", "FieldValueInvalid metadata.finalizers[1]")

	meta := metav1.ObjectMeta{Name: "c", Namespace: "ns", ResourceVersion: "1", Finalizers: finalizers}
	class := &v1alpha2.ResourceClass{ObjectMeta: meta, DriverName: "d"}
	class.Namespace = ""
	check(t, v1alpha2.ValidateClass(class), wrong)
	check(t, v1alpha2.ValidateClassUpdate(class, class), wrong, wrong)
	template := &v1alpha2.ResourceClaimTemplate{ObjectMeta: meta}
	template.Spec.Spec = pending().Spec
	check(t, v1alpha2.ValidateTemplate(template), wrong)
	check(t, v1alpha2.ValidateTemplateUpdate(template, template), wrong, wrong)
	scheduling := &v1alpha2.PodSchedulingContext{ObjectMeta: meta}
	check(t, v1alpha2.ValidateSchedulingContext(scheduling), wrong)
	check(t, v1alpha2.ValidateSchedulingContextUpdate(scheduling, scheduling), wrong, wrong)
	check(t, v1alpha2.ValidateSchedulingContextStatusUpdate(scheduling, scheduling), wrong)
}

func TestDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	v1alpha2.RegisterDefaults(scheme)
	claim, template := &v1alpha2.ResourceClaim{}, &v1alpha2.ResourceClaimTemplate{}
	scheme.Default(claim)
	scheme.Default(template)
	for _, mode := range []v1alpha2.AllocationMode{claim.Spec.AllocationMode, template.Spec.Spec.AllocationMode} {
		if mode != v1alpha2.AllocationModeWaitForFirstConsumer {
			t.Errorf("mode %q, want the default", mode)
		}
	}
	list := &v1alpha2.ResourceClaimList{Items: []v1alpha2.ResourceClaim{{}, {Spec: v1alpha2.ResourceClaimSpec{AllocationMode: v1alpha2.AllocationModeImmediate}}}}
	scheme.Default(list)
	if list.Items[0].Spec.AllocationMode != v1alpha2.AllocationModeWaitForFirstConsumer || list.Items[1].Spec.AllocationMode != v1alpha2.AllocationModeImmediate {
		t.Errorf("modes %q and %q: what is not set gets the default, what is set stays", list.Items[0].Spec.AllocationMode, list.Items[1].Spec.AllocationMode)
	}
}
