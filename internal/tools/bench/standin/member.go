package standin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/apistore"
)

var nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// Member is one stand-in.
type Member struct {
	Name string
	*apistore.Store
	ca  []byte
	key []byte // signs tokens

	fault fault
	counts
}

// newMember returns a stand-in with two nodes and the namespaces that every cluster has.
func newMember(name string, shared apistore.Shared, ca []byte) (*Member, error) {
	store, err := apistore.New(shared)
	if err != nil {
		return nil, err
	}
	m := &Member{Name: name, Store: store, ca: ca, key: []byte(uuid.NewUUID())}
	store.Control = m.fillSecret
	add := func(resource schema.GroupVersionResource, kind, name string, content map[string]any) error {
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion("v1")
		u.SetKind(kind)
		u.SetName(name)
		u.SetUID(uuid.NewUUID())
		u.SetCreationTimestamp(metav1.NewTime(time.Now()))
		return m.Add(resource, u)
	}
	for _, namespace := range []string{metav1.NamespaceSystem, metav1.NamespaceDefault} {
		if err := add(apistore.Namespaces, "Namespace", namespace, map[string]any{"status": map[string]any{"phase": "Active"}}); err != nil {
			return nil, err
		}
	}
	for _, node := range []string{"node-1", "node-2"} {
		capacity := map[string]any{"cpu": "32", "memory": "128Gi", "pods": "110"}
		status := map[string]any{"capacity": capacity, "allocatable": capacity, "conditions": []any{apistore.Condition("Ready")}}
		if err := add(nodes, "Node", name+"-"+node, map[string]any{"status": status}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// claims are what a token says.
type claims struct {
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"`
	Ends    int64  `json:"exp,omitempty"` // zero for never
}

// token returns a signed token of a service account.
func (m *Member) token(account types.NamespacedName, life time.Duration) (string, time.Time) {
	now := time.Now()
	c := claims{Subject: "system:serviceaccount:" + account.Namespace + ":" + account.Name, Issued: now.Unix()}
	if life > 0 {
		c.Ends = now.Add(life).Unix()
	}
	payload, _ := json.Marshal(c) // of plain fields: cannot fail
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return signed + "." + m.sign(signed), time.Unix(c.Ends, 0)
}

func (m *Member) sign(text string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(text)) // never fails, by the contract of hash.Hash
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// authenticate returns whether a token is one of this member, and not expired.
func (m *Member) authenticate(token string) bool {
	i := strings.LastIndexByte(token, '.')
	if i < 0 || !hmac.Equal([]byte(token[i+1:]), []byte(m.sign(token[:i]))) {
		return false
	}
	_, payload, _ := strings.Cut(token[:i], ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	var c claims
	return err == nil && json.Unmarshal(raw, &c) == nil && (c.Ends == 0 || time.Now().Unix() < c.Ends)
}

// fillSecret fills the Secret of a service account with a token that does not expire, as the token controller does.
func (m *Member) fillSecret(secret *unstructured.Unstructured) bool {
	if secret.GetKind() != "Secret" || secret.Object["type"] != "kubernetes.io/service-account-token" || secret.Object["data"] != nil {
		return false
	}
	account := types.NamespacedName{Namespace: secret.GetNamespace(), Name: secret.GetAnnotations()["kubernetes.io/service-account.name"]}
	token, _ := m.token(account, 0)
	secret.Object["data"] = map[string]any{
		"token": base64.StdEncoding.EncodeToString([]byte(token)), "ca.crt": base64.StdEncoding.EncodeToString(m.ca),
	}
	return true
}
