package filters

import (
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// commandHeader is where kubectl names its command.
const commandHeader = "Kubectl-Command"

// podCommands are the commands that watch for a first pod of a workload if it has none, for 20 seconds or more.
func podCommands() []string {
	return []string{"kubectl logs", "kubectl exec", "kubectl attach", "kubectl port-forward"}
}

// RefusePodWatch answers these commands at once, since pods of workloads are in members.
func RefusePodWatch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || info.Verb != "watch" || info.APIGroup != "" || info.Resource != "pods" || info.Subresource != "" ||
			!slices.Contains(podCommands(), r.Header.Get(commandHeader)) {
			next.ServeHTTP(w, r)
			return
		}
		way := fmt.Sprintf("https://%s/apis/%s/clusters/NAME/proxy", r.Host, clusterv1alpha1.SchemeGroupVersion)
		refusal := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: "the workload has no pod on the control plane: its pods are in the members. Use the same command with --server=" + way +
				", where NAME is that of a cluster in which the workload is",
		}}
		responsewriters.ErrorNegotiated(refusal, legacyscheme.Codecs, corev1.SchemeGroupVersion, w, r)
	})
}
