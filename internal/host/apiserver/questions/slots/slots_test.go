package slots_test

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/questions/slots"
)

func begin(s *slots.Slots, name string, operator bool) (end func(), ok bool) {
	return s.Begin(&user.DefaultInfo{Name: name}, func() bool { return operator })
}

// TestTheServiceAccountsOfANamespaceAreOneTenant: who may make one account makes four.
func TestTheServiceAccountsOfANamespaceAreOneTenant(t *testing.T) {
	s := slots.New(1, 4)
	end, ok := begin(s, "system:serviceaccount:shop:a", false)
	if !ok {
		t.Fatal("the first is refused")
	}
	for _, name := range []string{"system:serviceaccount:shop:a", "system:serviceaccount:shop:b", "system:serviceaccount:shop:c"} {
		if _, ok := begin(s, name, false); ok {
			t.Errorf("%s has a second slot of its namespace", name)
		}
	}
	if _, ok := begin(s, "system:serviceaccount:other:a", false); !ok {
		t.Error("an account of another namespace is refused")
	}
	end()
	end() // once more has no effect
	if _, ok := begin(s, "system:serviceaccount:shop:b", false); !ok {
		t.Error("an account is refused after the other one's end")
	}
	if _, ok := begin(s, "system:serviceaccount:shop:a", false); ok {
		t.Error("the slot was returned twice")
	}
}

// TestOneSlotIsLeftToOperators: however many tenants there are.
func TestOneSlotIsLeftToOperators(t *testing.T) {
	s := slots.New(1, 4)
	for _, name := range []string{"alice", "bob", "carol"} {
		if _, ok := begin(s, name, false); !ok {
			t.Errorf("%s is refused", name)
		}
	}
	if _, ok := begin(s, "dave", false); ok {
		t.Error("a tenant has the last slot")
	}
	if _, ok := begin(s, "operator", true); !ok {
		t.Error("an operator is refused")
	}
	if _, ok := begin(s, "operator 2", true); ok {
		t.Error("there are more slots than four")
	}
}
