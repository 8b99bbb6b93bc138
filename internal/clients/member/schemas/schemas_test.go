package schemas_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/member/schemas"
)

func TestASchemaIsAnotherOneWhenItsDocumentIs(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	answer, requests := `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=A"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=B"}}}`, 0
	var failure error
	s := &schemas.Schemas{Clock: clock, Index: func(context.Context) ([]byte, error) { requests++; return []byte(answer), failure }}
	id := func(group, version string) string {
		t.Helper()
		id, err := s.ID(t.Context(), schema.GroupVersion{Group: group, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	core, apps := id("", "v1"), id("apps", "v1")
	if core == "" || apps == "" || core == apps || id("batch", "v1") != "" || requests != 1 {
		t.Errorf("ids are %q and %q after %d requests", core, apps, requests)
	}
	answer = `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=A"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=C"}}}`
	if id("apps", "v1") != apps {
		t.Error("every call is a request to the member")
	}
	clock.Step(schemas.Pause)
	if id("apps", "v1") == apps || id("", "v1") != core {
		t.Error("the change was missed, or one was reported that was none")
	}
	clock.Step(schemas.Pause)
	failure = errors.New("no")
	if _, err := s.ID(t.Context(), schema.GroupVersion{Version: "v1"}); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
