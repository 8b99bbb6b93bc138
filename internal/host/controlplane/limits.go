package controlplane

// mayStore says whether a user may create an object in a namespace, or make one larger there. Until the loops are built
// nothing is refused.
func (w *admissionLookups) mayStore(namespace string, creates bool, grows func() bool) error {
	h := w.components.Load()
	if h == nil {
		return nil
	}
	return h.limiter.CheckUser(namespace, creates, grows)
}
