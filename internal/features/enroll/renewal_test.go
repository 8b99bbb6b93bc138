package enroll

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const day = 24 * time.Hour

// credential is the Secret of the controllers' credential.
func (f *fixture) credential() *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "m1"}}
	f.get(secret)
	return secret
}

// strict has the member refuse tokens that have expired, as an API server does.
func (f *fixture) strict() {
	f.member.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if f.clock.Now().After(memberaccount.TokenExpiry([]byte(f.token("m1")))) {
			return true, nil, apierrors.NewUnauthorized("the token has expired")
		}
		return false, nil, nil
	})
}

// issue does what the token controller of a member does.
func (f *fixture) issue(token string) {
	f.t.Helper()
	secrets := f.member.CoreV1().Secrets("karmada-cluster")
	secret, err := secrets.Get(f.t.Context(), "karmada-m1", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	secret.Data = map[string][]byte{"token": []byte(token)}
	if _, err := secrets.Update(f.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func TestTheRenewalTokenIsKept(t *testing.T) {
	f := joined(t, "m1")
	if again := f.mustReconcile().RequeueAfter; again != renewalTokenPause {
		t.Errorf("the Secret that the member does not fill is read again after %s, want %s", again, renewalTokenPause)
	}
	f.issue("renewal")
	f.mustReconcile()
	if secret := f.credential(); string(secret.Data["renewalToken"]) != "renewal" {
		t.Errorf("the Secret has the keys %v", slices.Sorted(maps.Keys(secret.Data)))
	}
	if f.refreshed == 0 {
		t.Error("the connection does not have the renewal token")
	}

	t.Run("revoked", func(t *testing.T) {
		if err := f.member.CoreV1().Secrets("karmada-cluster").Delete(t.Context(), "karmada-m1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.mustReconcile()
		if _, err := f.member.CoreV1().Secrets("karmada-cluster").Get(t.Context(), "karmada-m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret that was deleted in the member: %v, want it absent", err)
		}
		if err := joinerFor(f.hub, f.member, "m1").Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.issue("second")
		if f.mustReconcile(); string(f.credential().Data["renewalToken"]) != "second" {
			t.Error("joining again gives no new renewal token")
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		f.reconciler.deps.NoRenewalTokens = true
		f.mustReconcile()
		if _, found := f.credential().Data["renewalToken"]; found {
			t.Error("the renewal token is still kept")
		}
		if _, err := f.member.CoreV1().Secrets("karmada-cluster").Get(t.Context(), "karmada-m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Secret in the member: %v, want it absent", err)
		}
	})
}

// TestAMemberThatHasNoRenewalTokenYet: its token controller fills the Secret in a moment, and whether that moment is over does not depend
// on the clock of the member. A member that has just joined may not be reached yet.
func TestAMemberThatHasNoRenewalTokenYet(t *testing.T) {
	for name, tc := range map[string]struct {
		inMember, joined time.Duration // ago
		failure          error
		want             time.Duration
	}{
		"JustNow":               {want: renewalTokenSoon},
		"JoinedAgain":           {inMember: time.Minute, joined: day, want: renewalTokenSoon},
		"LongAgo":               {inMember: day, joined: day, want: renewalTokenPause},
		"ClockBehind":           {inMember: time.Hour, joined: time.Second, want: renewalTokenSoon},
		"ClockAhead":            {inMember: -time.Hour, joined: time.Second, want: renewalTokenSoon},
		"LongAgoWithClockAhead": {inMember: -time.Hour, joined: 10 * time.Minute, want: renewalTokenPause},
		"NotReachedYet":         {failure: errors.New("away"), want: renewalTokenSoon},
		"Away":                  {inMember: day, joined: day, failure: errors.New("away"), want: renewalTokenRetry},
		"NotAllowed":            {failure: apierrors.NewForbidden(corev1.Resource("secrets"), "karmada-m1", nil), want: renewalTokenPause},
	} {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			secrets := f.member.CoreV1().Secrets("karmada-cluster")
			secret, err := secrets.Get(t.Context(), "karmada-m1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			secret.CreationTimestamp = metav1.NewTime(f.clock.Now().Add(-tc.inMember))
			if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			f.member.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				return tc.failure != nil, nil, tc.failure
			})
			created := metav1.NewTime(f.clock.Now().Add(-tc.joined))
			f.reconciler.client = interceptor.NewClient(f.hub.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					err := c.Get(ctx, key, object, opts...)
					if _, ok := object.(*corev1.Secret); ok {
						object.SetCreationTimestamp(created)
					}
					return err
				},
			})
			if again := f.mustReconcile().RequeueAfter; again != tc.want {
				t.Errorf("it is read again after %s, want %s", again, tc.want)
			}
		})
	}
}

// TestARestartWritesSecretsOnce: a control plane that starts writes the renewal tokens that it has not got yet, each once, also when its
// cache is behind, and no others.
func TestARestartWritesSecretsOnce(t *testing.T) {
	f := joined(t, "m1")
	f.mustReconcile()
	var writes []string
	var behind map[client.ObjectKey]*corev1.Secret
	live := f.hub
	counted := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if secret, ok := object.(*corev1.Secret); ok && behind[key] != nil {
				behind[key].DeepCopyInto(secret)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			writes = append(writes, fmt.Sprintf("%T %s", object, object.GetName()))
			return c.Patch(ctx, object, patch, opts...)
		},
	})
	restart := func(want ...string) {
		t.Helper()
		writes = nil
		f.reconciler = newReconciler(counted, f.reconciler.deps)
		f.reconciler.live = live
		f.mustReconcile()
		f.mustReconcile()
		if !slices.Equal(writes, want) {
			t.Errorf("a start writes %v, want %v", writes, want)
		}
	}
	restart()
	f.issue("renewal")
	behind = map[client.ObjectKey]*corev1.Secret{client.ObjectKeyFromObject(f.credential()): f.credential()}
	restart("*v1.Secret m1")
	behind = nil
	restart()
	if got := string(f.credential().Data[clusterv1alpha1.SecretRenewalTokenKey]); got != "renewal" {
		t.Errorf("the renewal token is %q", got)
	}
}

// TestASecretOfAnotherOwnerIsNotChanged: a Secret in the member that has the name, but was not made by the control plane.
func TestASecretOfAnotherOwnerIsNotChanged(t *testing.T) {
	f := joined(t, "m1")
	secrets := f.member.CoreV1().Secrets("karmada-cluster")
	secret, err := secrets.Get(t.Context(), "karmada-m1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Labels, secret.Data = nil, map[string][]byte{"token": []byte("foreign")}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.mustReconcile()
	if _, found := f.credential().Data["renewalToken"]; found {
		t.Error("a token of another account is kept")
	}
	if err := memberaccount.Leave(t.Context(), "m1", "hub-1", f.member); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Get(t.Context(), "karmada-m1", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret of another owner: %v", err)
	}
}

// TestLongAbsence has the control plane stopped, or the member unreachable, until tokens have expired.
func TestLongAbsence(t *testing.T) {
	cases := map[string]struct {
		days       int
		memberAway bool // else the control plane is stopped
		renewal    bool
		renewed    bool
	}{
		"control plane stopped for 30 days":                        {days: 30, renewed: true},
		"member unreachable for 30 days":                           {days: 30, memberAway: true, renewed: true},
		"control plane stopped for 70 days":                        {days: 70, renewal: true, renewed: true},
		"member unreachable for 70 days":                           {days: 70, memberAway: true, renewal: true, renewed: true},
		"control plane stopped for 70 days without renewal token":  {days: 70},
		"member unreachable for a year with renewal token":         {days: 365, memberAway: true, renewal: true, renewed: true},
		"member unreachable for 70 days without any renewal token": {days: 70, memberAway: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			registry := prometheus.NewRegistry()
			f.reconciler.metrics = newMetrics(registry)
			// The worst moment to go away: just before a renewal.
			f.mustReconcile()
			f.clock.Step(20*day - time.Minute)
			f.mustReconcile()
			f.strict()
			if tc.renewal {
				f.renewal = newMember("id-1", f.clock)
			}
			f.away = tc.memberAway
			for range tc.days {
				f.clock.Step(day)
				if tc.memberAway {
					if _, err := f.reconcile(); err == nil {
						t.Fatal("a renewal that is due and impossible is no error, so it is not tried again")
					}
				}
			}
			f.away = false
			_, err := f.reconcile()
			if (err == nil) != tc.renewed {
				t.Fatalf("got %v, want it renewed: %t", err, tc.renewed)
			}
			for _, secret := range []string{"m1", "m1-impersonator"} {
				if left := memberaccount.TokenExpiry([]byte(f.token(secret))).Sub(f.clock.Now()); (left == membership.DefaultTokenLifetime) != tc.renewed {
					t.Errorf("the token in %s expires in %s", secret, left)
				}
			}
			if !tc.renewed && (!apierrors.IsUnauthorized(err) || !slices.Contains(f.events, events.RenewCredentialsFailed)) {
				t.Errorf("got %v and the events %v", err, f.events)
			}
			expiry := testutil.ToFloat64(f.reconciler.metrics.expiry.WithLabelValues("m1", "controller"))
			if want := memberaccount.TokenExpiry([]byte(f.token("m1"))); expiry != float64(want.Unix()) {
				t.Errorf("the metric says %v, want %s", expiry, want)
			}
		})
	}
}

// TestTokensOfAnEarlierVersionAreRenewedAtOnce: those live for a day, and nothing is noted about their lifetime.
func TestTokensOfAnEarlierVersionAreRenewedAtOnce(t *testing.T) {
	for name, limit := range map[string]time.Duration{"member without a limit": membership.DefaultTokenLifetime, "member that limits tokens to a day": day} {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			f.member.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create, ok := action.(clienttesting.CreateActionImpl)
				if !ok || create.GetSubresource() != "token" {
					return false, nil, nil
				}
				request := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
				life := min(limit, time.Duration(ptr.Deref(request.Spec.ExpirationSeconds, 0))*time.Second)
				request.Status.Token = tokenFor(create.Name, f.clock.Now(), life)
				return true, request, nil
			})
			secret := f.credential()
			secret.Data["token"] = []byte(tokenFor("karmada-m1", epoch, day))
			delete(secret.Annotations, clusterv1alpha1.TokenLifetimeAnnotation)
			if err := f.hub.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			f.clock.Step(time.Minute)
			f.mustReconcile()
			want := tokenFor("karmada-m1", f.clock.Now(), limit)
			if f.token("m1") != want {
				t.Error("the token was not renewed at once")
			}
			f.clock.Step(time.Minute)
			if f.mustReconcile(); f.token("m1") != want {
				t.Error("the token was renewed a second time, though it is as long as the member allows")
			}
		})
	}
}

// TestAShortTokenOfAMemberWhoseClockIsOff is renewed at a third of its life, not at once and not too late.
func TestAShortTokenOfAMemberWhoseClockIsOff(t *testing.T) {
	const life = time.Hour
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			f := joined(t, "m1")
			f.reconciler.deps.ClockAhead = func(string) time.Duration { return ahead }
			f.reconciler.deps.TokenLifetime = life
			f.member.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create, ok := action.(clienttesting.CreateActionImpl)
				if !ok || create.GetSubresource() != "token" {
					return false, nil, nil
				}
				request := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
				request.Status.Token = tokenFor(create.Name, f.clock.Now().Add(ahead), life)
				return true, request, nil
			})
			f.clock.Step(50 * day) // the first one is due
			if again := f.mustReconcile().RequeueAfter; again != life/3 {
				t.Errorf("the next token is due after %s, want %s", again, life/3)
			}
			first := f.token("m1")
			f.clock.Step(life/3 - time.Second)
			if f.mustReconcile(); f.token("m1") != first {
				t.Error("a token was renewed before it was due")
			}
			f.clock.Step(time.Second)
			if f.mustReconcile(); f.token("m1") == first {
				t.Error("a token was not renewed when it was due")
			}
		})
	}
}

// TestARefusedTokenIsReplaced: the member does not accept a token that has not expired, as after a restore of the member.
func TestARefusedTokenIsReplaced(t *testing.T) {
	f := joined(t, "m1")
	f.renewal = newMember("id-1", f.clock)
	old := f.token("m1")
	f.member.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return f.token("m1") == old, nil, apierrors.NewUnauthorized("the token is not known")
	})
	before := f.cluster()
	cluster := f.cluster()
	meta.SetStatusCondition(&cluster.Status.Conditions, clusterv1alpha1.NotReady(clusterv1alpha1.CredentialsRefusedReason, ""))
	if err := f.hub.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if !clusterChanges().Update(crevent.UpdateEvent{ObjectOld: before, ObjectNew: cluster}) {
		t.Error("the refusal enqueues nothing")
	}
	f.clock.Step(time.Minute)
	f.mustReconcile()
	fresh := f.token("m1")
	if fresh == old {
		t.Fatal("the token was not replaced")
	}
	f.clock.Step(time.Minute)
	if f.mustReconcile(); f.token("m1") != fresh {
		t.Error("the token was replaced once more, though it is accepted: the condition is older")
	}
}

func TestJoinReportsALimitOfTheMember(t *testing.T) {
	for name, tc := range map[string]struct {
		granted  time.Duration
		messages int
	}{"a day": {day, 1}, "all": {membership.DefaultTokenLifetime, 0}, "some minutes less": {membership.DefaultTokenLifetime - 7*time.Minute, 0}} {
		t.Run(name, func(t *testing.T) {
			var messages []string
			j := joinerFor(nil, nil, "m1")
			j.Options.Notice = func(message string) { messages = append(messages, message) }
			j.NoticeShortLife(tokenFor("karmada-m1", epoch, tc.granted))
			if len(messages) != tc.messages {
				t.Fatalf("got %q, want %d", messages, tc.messages)
			}
			if tc.messages > 0 && (!strings.Contains(messages[0], "24h0m0s (1440h0m0s") || !strings.Contains(messages[0], "16h0m0s")) {
				t.Errorf("the message names neither the limit nor the time: %s", messages[0])
			}
		})
	}
}

func TestLeavingRemovesTheRenewalToken(t *testing.T) {
	f := joined(t, "m1")
	f.issue("renewal")
	if err := memberaccount.Leave(t.Context(), "m1", "hub-1", f.member); err != nil {
		t.Fatal(err)
	}
	if _, err := f.member.CoreV1().Secrets("karmada-cluster").Get(t.Context(), "karmada-m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret in the member: %v, want it absent", err)
	}
}
