package apply

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestTheBuriedAreKnownUntilTheyLiveOrAreTooMany(t *testing.T) {
	var b deletedWorks
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "karmada-es-m", Name: fmt.Sprint(i)}
	}
	now := time.Now()
	if b.reappears(name(0)) {
		t.Error("a Work that nobody buried")
	}
	b.put(name(0), now, "")
	if _, risen := b.visit(name(0)); risen {
		t.Error("it has risen before anything turned up")
	}
	if !b.reappears(name(0)) {
		t.Error("an object turned up and nobody noticed")
	}
	g, risen := b.visit(name(0))
	if !risen || !g.includes(now.Add(-time.Hour)) || !g.includes(now.Add(lateRequest/2)) || g.includes(now.Add(2*lateRequest)) {
		t.Errorf("risen is %t, %+v holds what was made before or just after it was buried, and nothing later", risen, g)
	}
	if _, risen := b.visit(name(0)); risen {
		t.Error("it does not rest")
	}
	b.put(name(1), now, "")
	b.forget(name(1))
	if b.reappears(name(1)) {
		t.Error("a Work that lives again passes for buried")
	}
	for i := range maxDeletedWorks {
		b.put(name(2+i), now, "")
	}
	if b.reappears(name(0)) || !b.reappears(name(2)) || len(b.works) > maxDeletedWorks || len(b.order) > maxDeletedWorks {
		t.Errorf("%d Works are remembered, %d in order, the bound is %d", len(b.works), len(b.order), maxDeletedWorks)
	}
}
