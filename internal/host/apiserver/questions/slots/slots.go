package slots

import (
	"sync"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Slots are those of the questions of one kind. They are safe for concurrent use.
type Slots struct {
	// each is how many a tenant has, and all how many there are, one of which is for operators only.
	each, all int

	mu   sync.Mutex
	busy map[string]int // by tenant
	used int
}

// New returns slots: how many each tenant has, and how many there are.
func New(each, all int) *Slots { return &Slots{each: each, all: all, busy: map[string]int{}} }

// Begin takes a slot for an author until end is called. It returns false if the author's tenant has none left, or there is none. Operator returns
// whether the author is one; it is called for the last slot only.
func (s *Slots) Begin(author user.Info, operator func() bool) (end func(), ok bool) {
	tenant := tenantOf(author)
	if !s.take(tenant, s.all-1) && !(operator() && s.take(tenant, s.all)) {
		return nil, false
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used--
		if s.busy[tenant]--; s.busy[tenant] == 0 {
			delete(s.busy, tenant)
		}
	}), true
}

func (s *Slots) take(tenant string, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= most || s.busy[tenant] >= s.each {
		return false
	}
	s.used++
	s.busy[tenant]++
	return true
}

// tenantOf is the user, or the namespace of a service account: who may create one may create any number.
func tenantOf(author user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(author.GetName()); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return author.GetName()
}
