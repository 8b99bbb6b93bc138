package apply

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestDeletedWorksAreKnownUntilTheyAreCreatedAgainOrAreTooMany(t *testing.T) {
	var b deletedWorks
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "karmada-es-m", Name: fmt.Sprint(i)}
	}
	now := time.Now()
	if b.reappears(name(0)) {
		t.Error("a Work that was not deleted")
	}
	b.put(name(0), now, "")
	if _, reappeared := b.visit(name(0)); reappeared {
		t.Error("it has reappeared before an object appeared")
	}
	if !b.reappears(name(0)) {
		t.Error("an object appeared and its Work was not enqueued")
	}
	g, reappeared := b.visit(name(0))
	if !reappeared || !g.includes(now.Add(-time.Hour)) || !g.includes(now.Add(lateRequest/2)) || g.includes(now.Add(2*lateRequest)) {
		t.Errorf("reappeared is %t, %+v holds what was made before or just after it was deleted, and nothing later", reappeared, g)
	}
	if _, reappeared := b.visit(name(0)); reappeared {
		t.Error("it does not rest")
	}
	b.put(name(1), now, "")
	b.forget(name(1))
	if b.reappears(name(1)) {
		t.Error("a Work that lives again passes for deleted")
	}
	for i := range maxDeletedWorks {
		b.put(name(2+i), now, "")
	}
	if b.reappears(name(0)) || !b.reappears(name(2)) || len(b.works) > maxDeletedWorks || len(b.order) > maxDeletedWorks {
		t.Errorf("%d Works are kept, %d in order, the bound is %d", len(b.works), len(b.order), maxDeletedWorks)
	}
}
