package v1alpha1_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// The Work that carries an object to a member has a name made of the object's, in the namespace of the member.
func ExampleWorkName() {
	fmt.Println(workv1alpha1.ExecutionNamespace("member1") + "/" + workv1alpha1.WorkName("Deployment", "shop", "web"))
	fmt.Println(workv1alpha1.ExecutionNamespace("member1") + "/" + workv1alpha1.WorkName("ClusterRole", "", "system:reader"))
	// Output:
	// karmada-es-member1/web-56d6c779bb
	// karmada-es-member1/system.reader-95c867f78
}

// A controller that reports on a Work sets conditions made by the constructors.
func ExampleNotApplied() {
	work := &workv1alpha1.Work{}
	work.Generation = 3
	meta.SetStatusCondition(&work.Status.Conditions, workv1alpha1.NotApplied(work.Generation, "Deployment shop/web: quota exceeded"))

	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	fmt.Println(applied.Type, applied.Status, applied.Reason, applied.ObservedGeneration)
	fmt.Println(applied.Message)
	// Output:
	// Applied False AppliedFailed 3
	// Deployment shop/web: quota exceeded
}
