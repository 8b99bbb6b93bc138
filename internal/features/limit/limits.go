package limit

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Limits are how much may be stored for a namespace.
type Limits struct {
	// Objects is a number of objects, Works included. 0 means bounds.DefaultObjects in the configuration of a control plane; a negative
	// number is no limit.
	Objects int64
	// Bytes is a number of bytes of storage, Works included. 0 means bounds.DefaultBytes in the configuration of a control plane; a
	// negative number is no limit.
	Bytes int64
}

// or returns the limits with those that are missing as in defaults.
func (l Limits) or(defaults Limits) Limits {
	return Limits{cmp.Or(l.Objects, defaults.Objects, bounds.DefaultObjects), cmp.Or(l.Bytes, defaults.Bytes, bounds.DefaultBytes)}
}

// ValidateAnnotations checks the annotations of a Namespace that hold its limits.
func ValidateAnnotations(annotations map[string]string) field.ErrorList {
	_, errs := parse(annotations)
	return errs
}

// parse reads the limits of a Namespace from its annotations. What is missing or cannot be read is 0.
func parse(annotations map[string]string) (Limits, field.ErrorList) {
	var limits Limits
	var errs field.ErrorList
	path := field.NewPath("metadata", "annotations")
	if text, ok := annotations[workv1alpha1.ObjectLimitAnnotation]; ok {
		objects, err := strconv.ParseInt(text, 10, 64)
		if err != nil || objects < 0 {
			errs = append(errs, field.Invalid(path.Key(workv1alpha1.ObjectLimitAnnotation), text, "must be a number of objects, or 0 for no limit"))
		} else {
			limits.Objects = orNone(objects)
		}
	}
	if text, ok := annotations[workv1alpha1.SizeLimitAnnotation]; ok {
		size, err := resource.ParseQuantity(text)
		if err != nil || size.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(workv1alpha1.SizeLimitAnnotation), text, "must be a quantity of bytes such as 2Gi, or 0 for no limit"))
		} else {
			limits.Bytes = orNone(size.Value())
		}
	}
	return limits, errs
}

// orNone turns the 0 of users, which is no limit, into the one of Limits.
func orNone(value int64) int64 {
	if value == 0 {
		return -1
	}
	return value
}

// Usage is what is stored for a namespace.
type Usage struct{ Objects, Bytes int64 }

func (u Usage) plus(v Usage) Usage { return Usage{u.Objects + v.Objects, u.Bytes + v.Bytes} }

// share is how much of the limits is used: 1 at a limit, 0 without limits.
func (l Limits) share(u Usage) float64 {
	var share float64
	if l.Objects > 0 {
		share = float64(u.Objects) / float64(l.Objects)
	}
	if l.Bytes > 0 {
		share = max(share, float64(u.Bytes)/float64(l.Bytes))
	}
	return share
}

// Exceeded is the error of a write for a namespace that is at its limit.
type Exceeded struct {
	Namespace string
	// Used and Limit are numbers of objects, or of bytes.
	Used, Limit int64
	Bytes       bool
}

// Error names the limit and what to do. It leaves out what is used, which changes all the time: conditions have this text.
func (e *Exceeded) Error() string {
	unit, flag, annotation := "objects", "--namespace-object-limit", workv1alpha1.ObjectLimitAnnotation
	if e.Bytes {
		unit, flag, annotation = "bytes", "--namespace-size-limit", workv1alpha1.SizeLimitAnnotation
	}
	return fmt.Sprintf("namespace %s is at its limit of %d %s in the storage of the control plane, Works included: delete objects or propagate them to fewer "+
		"clusters, or have an operator raise the limit (annotation %s on the Namespace, or flag %s)", e.Namespace, e.Limit, unit, annotation, flag)
}

// check is the error of a write that adds an object or enlarges one.
func (l Limits) check(namespace string, u Usage, creates bool, grows func() bool) *Exceeded {
	switch {
	case creates && l.Objects > 0 && u.Objects >= l.Objects:
		return &Exceeded{Namespace: namespace, Used: u.Objects, Limit: l.Objects}
	case l.Bytes > 0 && u.Bytes >= l.Bytes && (creates || grows()):
		return &Exceeded{Namespace: namespace, Used: u.Bytes, Limit: l.Bytes, Bytes: true}
	}
	return nil
}
