package controlloop

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

// cacheSyncTimeout is how long a cache may take to have all objects. controller-runtime ends the process after two minutes: a machine with
// little CPU time that has 100,000 Works to read would restart again and again. /readyz reports that a cache is not complete.
const cacheSyncTimeout = time.Hour

// NewManager builds a manager whose scheme has the kinds that add registers. Stop bounds its orderly end.
func NewManager(cfg *rest.Config, o ctrl.Options, stop time.Duration, add ...func(*runtime.Scheme) error) (ctrl.Manager, error) {
	o.Scheme = runtime.NewScheme()
	for _, kinds := range add {
		if err := kinds(o.Scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	o.GracefulShutdownTimeout = &stop
	o.LeaderElectionReleaseOnCancel = true
	// Several managers may be in one process; controller-runtime's list of the names of controllers is process-wide.
	o.Controller.SkipNameValidation = new(true)
	o.Controller.CacheSyncTimeout = cacheSyncTimeout
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, nil
}
