package enroll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

const (
	// renewalTokenSoon is the pause before the service account token Secret of a member is read again, while it is younger than
	// renewalTokenNew: the token controller of the member needs a moment to fill it.
	renewalTokenSoon = 5 * time.Second
	renewalTokenNew  = 2 * time.Minute
	// renewalTokenRetry is the pause after a failure to read it.
	renewalTokenRetry = time.Minute
	// renewalTokenPause is the pause where it is not filled, as in a member without a token controller, or not allowed.
	renewalTokenPause = time.Hour
)

// keepRenewalToken copies the token of the service account token Secret in the member into the Secret of the controllers'
// credential. It is read once: who deletes the Secret in the member revokes the token until the cluster joins again. A member
// without a token controller has none, and works without. It returns the pause before the next attempt, 0 for none.
func (r *Reconciler) keepRenewalToken(ctx context.Context, cluster *clusterv1alpha1.Cluster) (time.Duration, error) {
	secret, err := r.credentialSecret(ctx, cluster, cluster.Spec.SecretRef)
	if err != nil || secret == nil {
		return 0, err
	}
	token := secret.Data[clusterv1alpha1.SecretTokenKey]
	if _, ends := memberaccount.LifeOf(token); !ends {
		return 0, nil // not made here
	}
	known := len(secret.Data[clusterv1alpha1.SecretRenewalTokenKey]) > 0
	if known && !r.deps.NoRenewalTokens {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	c, err := r.deps.Member(cluster.Name)
	if err != nil {
		return renewalTokenSoon, nil // There is no connection yet.
	}
	account := memberaccount.ControllerOf(cluster.Name).Of(r.deps.ControlPlane).Named(token)
	if r.deps.NoRenewalTokens {
		return r.dropRenewalToken(ctx, c, account, secret)
	}
	// By the clock of the control plane: that of the member may be wrong.
	joinedNow := r.deps.Clock.Since(secret.CreationTimestamp.Time) < renewalTokenNew
	found, err := account.RenewalSecret(ctx, c)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The member has no renewal token", "cluster", cluster.Name, "reason", err.Error())
		if apierrors.ReasonForError(err) == metav1.StatusReasonForbidden {
			return renewalTokenPause, nil
		}
		if joinedNow { // the connection was made before the credential was complete
			return renewalTokenSoon, nil
		}
		return renewalTokenRetry, nil
	}
	renewal := found.Data[corev1.ServiceAccountTokenKey]
	if len(renewal) == 0 {
		if joinedNow || r.deps.Clock.Since(found.CreationTimestamp.Time).Abs() < renewalTokenNew {
			return renewalTokenSoon, nil
		}
		return renewalTokenPause, nil
	}
	// The cache may not have the token that was written a moment ago.
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return 0, fmt.Errorf("reading the Secret %s: %w", secret.Name, err)
	}
	if !clusterv1alpha1.OwnsCredential(cluster, secret) || bytes.Equal(secret.Data[clusterv1alpha1.SecretRenewalTokenKey], renewal) {
		return 0, nil
	}
	before := secret.DeepCopy()
	secret.Data[clusterv1alpha1.SecretRenewalTokenKey] = renewal
	if _, err := hubclient.PatchLocked(ctx, r.client, before, secret, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return 0, err
	}
	r.deps.Refresh(cluster.Name)
	return 0, nil
}

// dropRenewalToken revokes a renewal token that is not needed any more. The copy goes last, so that a failure is tried again.
func (r *Reconciler) dropRenewalToken(ctx context.Context, c kubernetes.Interface, a memberaccount.Account, secret *corev1.Secret) (time.Duration, error) {
	if err := a.RemoveRenewalSecret(ctx, c); err != nil {
		return renewalTokenRetry, nil // the member may be away
	}
	if _, known := secret.Data[clusterv1alpha1.SecretRenewalTokenKey]; !known {
		return 0, nil
	}
	before := secret.DeepCopy()
	delete(secret.Data, clusterv1alpha1.SecretRenewalTokenKey)
	if _, err := hubclient.Patch(ctx, r.client, before, secret, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return 0, err
	}
	return 0, nil
}

// refusals are the reasons of the Ready condition with which a member does not accept its credential.
var refusals = []string{clusterv1alpha1.CredentialsExpiredReason, clusterv1alpha1.CredentialsRefusedReason}

// refusal is the reason with which a member does not accept its credential; empty if it does, or nothing is known.
func refusal(cluster *clusterv1alpha1.Cluster) string {
	ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	if ready == nil || !slices.Contains(refusals, ready.Reason) {
		return ""
	}
	return ready.Reason
}

// refused returns whether a member does not accept the token of the control plane. The condition is minutes old, so the member
// is asked again: a token that was renewed meanwhile is not renewed once more.
func (r *Reconciler) refused(ctx context.Context, cluster *clusterv1alpha1.Cluster) bool {
	if refusal(cluster) == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	c, err := r.deps.Member(cluster.Name)
	if err != nil {
		return false
	}
	_, err = memberaccount.Identity(ctx, c)
	return apierrors.IsUnauthorized(err)
}

// renew replaces tokens that are due, and returns when the next one is.
func (r *Reconciler) renew(ctx context.Context, cluster *clusterv1alpha1.Cluster) (reconcile.Result, error) {
	if cluster.Spec.SyncMode != clusterv1alpha1.Push {
		return reconcile.Result{}, nil
	}
	refused := r.refused(ctx, cluster)
	var faults []error
	var next time.Time
	changed := false
	for _, c := range []struct {
		use     clusterv1alpha1.CredentialUse
		account memberaccount.Account
		secret  *clusterv1alpha1.LocalSecretReference
	}{
		{clusterv1alpha1.ControllerCredential, memberaccount.ControllerOf(cluster.Name), cluster.Spec.SecretRef},
		{clusterv1alpha1.ImpersonatorCredential, memberaccount.ImpersonatorOf(), cluster.Spec.ImpersonatorSecretRef},
	} {
		token, renewed, err := r.renewToken(ctx, cluster, c.account, c.secret, refused)
		r.metrics.token(cluster.Name, c.use, token)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		changed = changed || renewed
		if due := token.Renewal(); !token.Ends.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if changed {
		r.deps.Refresh(cluster.Name)
		log.FromContext(ctx).Info("Renewed the credentials of a cluster", "cluster", cluster.Name)
	}
	if err := errors.Join(faults...); err != nil {
		if !apierrors.IsConflict(err) { // after a conflict it is tried again
			r.deps.Events.Publish(notRenewed(cluster, err))
		}
		return reconcile.Result{}, err
	}
	if next.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Sub(r.deps.Clock.Now()), time.Second)}, nil
}

// renewToken replaces the token in one Secret if it is due or refused, and returns the life of the one that the Secret holds
// then. It is zero if there is no Secret, or the token is not one that ends.
func (r *Reconciler) renewToken(ctx context.Context, cluster *clusterv1alpha1.Cluster, a memberaccount.Account,
	ref *clusterv1alpha1.LocalSecretReference, refused bool) (token memberaccount.Life, renewed bool, err error) {
	secret, err := r.credentialSecret(ctx, cluster, ref)
	if err != nil || secret == nil {
		return memberaccount.Life{}, false, err
	}
	token, ends := r.lifeOf(cluster.Name, secret.Data[clusterv1alpha1.SecretTokenKey])
	if !ends { // Not made here, so not ours to replace.
		return memberaccount.Life{}, false, nil
	}
	if !refused && !r.due(secret, token) {
		return token, false, nil
	}
	// The cache may still have the token that was replaced a moment ago.
	cached := secret.ResourceVersion
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return token, false, fmt.Errorf("reading the Secret %s: %w", ref.Name, err)
	}
	token, ends = r.lifeOf(cluster.Name, secret.Data[clusterv1alpha1.SecretTokenKey])
	if secret.ResourceVersion != cached && (!ends || !clusterv1alpha1.OwnsCredential(cluster, secret) || !r.due(secret, token)) {
		return token, false, nil
	}
	fresh, err := r.requestToken(ctx, cluster.Name, a.Named(secret.Data[clusterv1alpha1.SecretTokenKey]))
	if err != nil {
		return token, false, err
	}
	before := secret.DeepCopy()
	secret.Data[clusterv1alpha1.SecretTokenKey] = []byte(fresh)
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, clusterv1alpha1.TokenLifetimeAnnotation, r.deps.TokenLifetime.String())
	if _, err := hubclient.PatchLocked(ctx, r.client, before, secret, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return token, false, err
	}
	token, _ = r.lifeOf(cluster.Name, []byte(fresh))
	return token, true, nil
}

// lifeOf is the life of a token by the clock of the control plane. By that of a member which is behind, a short token would be due as soon as
// it is issued, again and again.
func (r *Reconciler) lifeOf(cluster string, token []byte) (memberaccount.Life, bool) {
	life, ends := memberaccount.LifeOf(token)
	if ends && r.deps.ClockAhead != nil {
		life = life.Shifted(-r.deps.ClockAhead(cluster))
	}
	return life, ends
}

// due returns whether a token is to be replaced though the member may accept it.
func (r *Reconciler) due(secret *corev1.Secret, token memberaccount.Life) bool {
	// An earlier version requested tokens of one day and did not note that.
	short := secret.Annotations[clusterv1alpha1.TokenLifetimeAnnotation] == "" && memberaccount.MuchLess(token.Duration(), r.deps.TokenLifetime)
	return short || !r.deps.Clock.Now().Before(token.Renewal())
}

// requestToken requests a token with the credential of the controllers and, if the member does not accept that, with the
// renewal token.
func (r *Reconciler) requestToken(ctx context.Context, cluster string, a memberaccount.Account) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	c, err := r.deps.Member(cluster)
	if err != nil {
		r.metrics.renewal(renewalFailed)
		return "", err
	}
	token, err := a.Token(ctx, c, r.deps.TokenLifetime)
	result := renewalByToken
	if apierrors.IsUnauthorized(err) {
		if token, err = r.requestByRenewalToken(ctx, cluster, a, err); err == nil {
			result = renewalByRenewalToken
		}
	}
	if err != nil {
		result = renewalFailed
	}
	r.metrics.renewal(result)
	return token, err
}

func (r *Reconciler) requestByRenewalToken(ctx context.Context, cluster string, a memberaccount.Account, refusal error) (string, error) {
	c, err := r.deps.Renewal(cluster)
	var token string
	if err == nil {
		token, err = a.Token(ctx, c, r.deps.TokenLifetime)
	}
	if errors.Is(err, member.ErrNoRenewalToken) {
		return "", refusal
	}
	if err != nil {
		return "", fmt.Errorf("with the renewal token: %w", err)
	}
	log.FromContext(ctx).Info("The member did not accept the credential; it was replaced with the renewal token", "cluster", cluster, "account", a.Name)
	return token, nil
}
