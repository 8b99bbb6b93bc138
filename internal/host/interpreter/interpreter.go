package interpreter

import (
	"fmt"

	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/thirdparty"
)

// New returns the interpreter of a control plane or an agent. The layers given, which are those of users, come first.
func New(clk clock.PassiveClock, customized ...interpret.Layer) (*interpret.Chained, error) {
	shipped, err := thirdparty.New()
	if err != nil {
		return nil, fmt.Errorf("reading what is known of other projects' kinds: %w", err)
	}
	return interpret.Chain(append(customized, shipped, resourceclaims.NewLayer(), builtin.New(clk))...), nil
}
