package controlplane

import (
	"fmt"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/thirdparty"
)

// Interpreter returns the interpreter of the control plane. The layers given, which are those of users, come first.
func Interpreter(clk clock.PassiveClock, customized ...interpret.Layer) (*interpret.Chained, error) {
	shipped, err := thirdparty.New()
	if err != nil {
		return nil, fmt.Errorf("reading what is known of other projects' kinds: %w", err)
	}
	return interpret.Chain(append(customized, shipped, resourceclaims.NewLayer(), builtin.New(clk))...), nil
}
