package pipeline_test

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestTheAPIOfAMember runs against a real API server what the stand-ins of benchmarks are tested with, too.
func TestTheAPIOfAMember(t *testing.T) {
	fleettest.MemberAPI(t, shared.Start(t).Member("member1").Config)
}
