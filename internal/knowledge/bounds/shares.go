package bounds

// Shares counts what waits in a place that tenants share, by namespace, so that one of them leaves a quarter of it to the others. The caller
// has a lock.
type Shares struct {
	most, waiting int
	of            map[string]int
}

// NewShares returns a place for as many things as most.
func NewShares(most int) *Shares { return &Shares{most: most, of: map[string]int{}} }

// Take takes a place for something of a namespace. It returns false if there is none.
func (s *Shares) Take(namespace string) bool {
	if s.waiting >= s.most || s.of[namespace] >= max(s.most*3/4, 1) {
		return false
	}
	s.waiting++
	s.of[namespace]++
	return true
}

// Give gives the place of something of a namespace back.
func (s *Shares) Give(namespace string) {
	s.waiting--
	if s.of[namespace]--; s.of[namespace] <= 0 {
		delete(s.of, namespace)
	}
}
