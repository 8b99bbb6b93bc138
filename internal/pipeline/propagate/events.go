package propagate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// eventMaker is event.Normal or event.Warning.
type eventMaker func(object corev1.ObjectReference, reason, message string) events.Event
