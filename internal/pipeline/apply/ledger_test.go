package apply

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestTheBuriedAreKnownUntilTheyLiveOrAreTooMany(t *testing.T) {
	var b buried
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "karmada-es-m", Name: fmt.Sprint(i)}
	}
	now := time.Now()
	if b.rise(name(0)) {
		t.Error("a Work that nobody buried")
	}
	b.put(name(0), now, "")
	if _, risen := b.visit(name(0)); risen {
		t.Error("it has risen before anything turned up")
	}
	if !b.rise(name(0)) {
		t.Error("an object turned up and nobody noticed")
	}
	g, risen := b.visit(name(0))
	if !risen || !g.holds(now.Add(-time.Hour)) || !g.holds(now.Add(afterlife/2)) || g.holds(now.Add(2*afterlife)) {
		t.Errorf("risen is %t, %+v holds what was made before or just after it was buried, and nothing later", risen, g)
	}
	if _, risen := b.visit(name(0)); risen {
		t.Error("it does not rest")
	}
	b.put(name(1), now, "")
	b.forget(name(1))
	if b.rise(name(1)) {
		t.Error("a Work that lives again passes for buried")
	}
	for i := range graves {
		b.put(name(2+i), now, "")
	}
	if b.rise(name(0)) || !b.rise(name(2)) || len(b.works) > graves || len(b.order) > graves {
		t.Errorf("%d Works are remembered, %d in order, the bound is %d", len(b.works), len(b.order), graves)
	}
}
