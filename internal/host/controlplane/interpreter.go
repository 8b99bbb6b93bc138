package controlplane

import (
	"fmt"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/thirdparty"
)

// Interpreter knows what the control plane knows about kinds. The layers given, which are what users say, are asked first.
func Interpreter(clk clock.PassiveClock, customized ...interpret.Layer) (*interpret.Chained, error) {
	shipped, err := thirdparty.New()
	if err != nil {
		return nil, fmt.Errorf("reading what is known of other projects' kinds: %w", err)
	}
	return interpret.Chain(append(customized, shipped, resourceclaims.NewLayer(), builtin.New(clk))...), nil
}
