package declarative

import "time"

// SetTimeout bounds the time of a call.
func (s *Store) SetTimeout(timeout time.Duration) { s.machines.Timeout = timeout }
