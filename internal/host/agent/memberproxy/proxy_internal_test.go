package memberproxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// issue returns a token with a number that is valid for an hour.
func issue(number int) string {
	return "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":1000,"exp":4600}`)) + fmt.Sprintf(".%d", number)
}

// newProxy is a proxy to an API server that records what it receives, in a cluster with the accounts given. Each token has the next number.
func newProxy(t *testing.T, clock *clocktesting.FakeClock, accounts ...runtime.Object) (proxy *Proxy, received *[]*http.Request) {
	t.Helper()
	received = new([]*http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*received = append(*received, r)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	location, err := url.Parse(server.URL + "/prefix/")
	if err != nil {
		t.Fatal(err)
	}
	kube, tokens := kubefake.NewClientset(accounts...), 0
	kube.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		tokens++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: issue(tokens)}}, nil
	})
	return &Proxy{member: location, transport: http.DefaultTransport, kube: kube, controlPlane: "own", clock: clock}, received
}

// send sends a request on behalf of a user, "" for none, with a credential that the agent must not pass on.
func send(t *testing.T, proxy *Proxy, user string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods?limit=1", nil)
	r.Header.Set("Authorization", "Bearer of-the-user")
	if user != "" {
		r.Header.Set(authenticationv1.ImpersonateUserHeader, user)
	}
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, r)
	return w.Code
}

// TestRequestsAreMadeAsTheImpersonator: the member receives the request with the name of the user and a token of the account that may
// impersonate, which is created, kept for half of its life and requested again then.
func TestRequestsAreMadeAsTheImpersonator(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	proxy, received := newProxy(t, clock)
	for i, tc := range []struct {
		after  time.Duration
		number int
	}{{0, 1}, {29 * time.Minute, 1}, {2 * time.Minute, 2}} {
		clock.Step(tc.after)
		if code := send(t, proxy, "jane"); code != http.StatusTeapot || len(*received) != i+1 {
			t.Fatalf("request %d is answered with %d; the member has received %d", i, code, len(*received))
		}
		r := (*received)[i]
		if r.URL.String() != "/prefix/api/v1/pods?limit=1" || r.Header.Get(authenticationv1.ImpersonateUserHeader) != "jane" ||
			len(r.Header.Values("Authorization")) != 1 || r.Header.Get("Authorization") != "Bearer "+issue(tc.number) {
			t.Errorf("request %d is %s with %v, want token %d", i, r.URL, r.Header, tc.number)
		}
	}
	account, err := proxy.kube.CoreV1().ServiceAccounts(clusterv1alpha1.ClusterNamespace).Get(t.Context(), memberaccount.Impersonator, metav1.GetOptions{})
	if err != nil || account.Annotations[workv1alpha1.ControlPlaneAnnotation] != "own" {
		t.Errorf("the account is %+v: %v", account, err)
	}
}

// TestTheUserIsPassedOnWhole: name, groups and extra of the user, whatever Connection names, and nothing else that identifies a client.
func TestTheUserIsPassedOnWhole(t *testing.T) {
	proxy, received := newProxy(t, clocktesting.NewFakeClock(time.Now()))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", nil)
	r.Header = http.Header{
		"Impersonate-User": {"jane"}, "Impersonate-Group": {"dev", "ops"}, "Impersonate-Extra-Flagship.io%2fuser": {"jane"},
		"Connection": {"Impersonate-User, Impersonate-Group, Impersonate-Extra-Flagship.io%2fuser, Authorization"}, "X-Remote-User": {"root"}, "Cookie": {"a=b"},
	}
	proxy.ServeHTTP(httptest.NewRecorder(), r)
	if len(*received) != 1 {
		t.Fatalf("the member has received %d requests", len(*received))
	}
	got := (*received)[0].Header
	want := http.Header{
		"Impersonate-User": {"jane"}, "Impersonate-Group": {"dev", "ops"}, "Impersonate-Extra-Flagship.io%2fuser": {"jane"}, "Authorization": {"Bearer " + issue(1)},
	}
	for _, name := range []string{"Impersonate-User", "Impersonate-Group", "Impersonate-Extra-Flagship.io%2fuser", "Authorization", "X-Remote-User", "Cookie"} {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s is %q, want %q", name, got[name], want[name])
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterv1alpha1.ClusterNamespace, Name: memberaccount.Impersonator,
		Labels:      map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		Annotations: map[string]string{workv1alpha1.ControlPlaneAnnotation: "other"},
	}}
	for name, tc := range map[string]struct {
		reason   string
		user     string
		accounts []runtime.Object
		code     int
	}{
		"NoUser":  {"it would have the rights of the account itself", "", nil, http.StatusBadRequest},
		"Foreign": {"another control plane decides whom that account may impersonate", "jane", []runtime.Object{foreign}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, received := newProxy(t, clocktesting.NewFakeClock(time.Now()), tc.accounts...)
			if code := send(t, proxy, tc.user); code != tc.code || len(*received) > 0 {
				t.Errorf("%s: %d after %d requests to the member, want %d", tc.reason, code, len(*received), tc.code)
			}
		})
	}
}
