package drift

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

const (
	// EpisodeGap is how long without a difference ends an episode.
	EpisodeGap = time.Hour
	// MaxObjects is how many objects of one cluster are kept, and MaxAll how many in all, so that a member that differs as a whole
	// neither removes the others nor fills the memory: 4,096 objects with all their fields take some 20 MB.
	MaxObjects, MaxAll = 256, 4096
	// MaxFields is how many fields of one object are kept, MaxRecent how many of the times at which it was repaired.
	MaxFields, MaxRecent = 16, 8
	// disputeRepairs within disputeSpan are a dispute: others change a field again as often as it is put back.
	disputeRepairs, disputeSpan = 5, 2 * time.Minute
)

// Key is one object of a Work in the member of the Work.
type Key struct {
	Cluster string
	Work    types.NamespacedName
	Object  fleetv1alpha1.ObjectIdentity
}

// Episodes has the objects that differ or differed lately. Its zero value is not usable; see New.
type Episodes struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects map[types.NamespacedName]map[fleetv1alpha1.ObjectIdentity]*object // by Work
	// counts has how many objects each cluster has.
	counts map[string]int
	total  int
}

// object is one object. Fields that stand differ now; those that were put back differed then.
type object struct {
	cluster         string
	since, last     time.Time
	standing        []fleetv1alpha1.DriftedField
	standingOmitted int
	standingSince   time.Time
	repaired        []fleetv1alpha1.DriftedField
	repairedOmitted int
	putBack         int32
	recent          []fleetv1alpha1.PutBack
}

// New returns no episodes.
func New(clock clock.PassiveClock) *Episodes {
	return &Episodes{clock: clock, objects: map[types.NamespacedName]map[fleetv1alpha1.ObjectIdentity]*object{}, counts: map[string]int{}}
}

// CreatedAgain records that an object which others deleted was created again, and returns the field that stands for the whole object, and
// whether it is the first time in this episode. Who deleted it is not known: no object is left that has it.
func (e *Episodes) CreatedAgain(key Key) (whole fleetv1alpha1.DriftedField, isNew bool) {
	now := metav1.NewTime(e.clock.Now())
	whole = fleetv1alpha1.DriftedField{Path: "/", Outcome: fleetv1alpha1.DriftCreatedAgain, Time: &now}
	return whole, len(e.PutBack(key, []fleetv1alpha1.DriftedField{whole})) > 0
}

// PutBack records that fields were put back, or a whole object. It returns the paths of those that are new in this episode: only these are
// news.
func (e *Episodes) PutBack(key Key, fields []fleetv1alpha1.DriftedField) (news []string) {
	if len(fields) == 0 {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	o := e.at(key, now)
	o.last, o.standing, o.standingOmitted = now, nil, 0
	o.putBack++
	o.recent = append([]fleetv1alpha1.PutBack{{Time: metav1.NewTime(now), Fields: int32(len(fields)), Manager: fields[0].Manager}}, o.recent...)
	o.recent = o.recent[:min(len(o.recent), MaxRecent)]
	for _, field := range fields {
		field.Outcome = cmp.Or(field.Outcome, fleetv1alpha1.DriftPutBack)
		at := slices.IndexFunc(o.repaired, func(f fleetv1alpha1.DriftedField) bool { return f.Path == field.Path })
		switch {
		case at >= 0:
			o.repaired[at] = field
		case len(o.repaired) < MaxFields:
			o.repaired = append(o.repaired, field)
			news = append(news, field.Path)
		default:
			o.repairedOmitted++
		}
	}
	return news
}

// Stands records all fields of an object that differ now and are left so; none if nothing differs. It returns the paths of those that
// are new in this episode.
func (e *Episodes) Stands(key Key, fields []fleetv1alpha1.DriftedField) (news []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if len(fields) == 0 {
		if o := e.objects[key.Work][key.Object]; o != nil {
			o.standing, o.standingOmitted = nil, 0
		}
		return nil
	}
	o := e.at(key, now)
	if len(o.standing) == 0 {
		o.standingSince = now
	}
	for _, field := range fields {
		if !slices.ContainsFunc(o.standing, func(f fleetv1alpha1.DriftedField) bool { return f.Path == field.Path }) {
			news = append(news, field.Path)
		}
	}
	if len(news) > 0 || len(fields) != len(o.standing) {
		o.last = now
	}
	kept := min(len(fields), MaxFields)
	o.standing, o.standingOmitted = slices.Clone(fields[:kept]), len(fields)-kept
	return news
}

// Standing returns the fields of an object that differ and are left so, and since when the first of them does.
func (e *Episodes) Standing(key Key) (fields []fleetv1alpha1.DriftedField, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.objects[key.Work][key.Object]
	if o == nil || len(o.standing) == 0 {
		return nil, time.Time{}
	}
	return slices.Clone(o.standing), o.standingSince
}

// Outcomes returns what happens to the fields of a Work that differ now.
func (e *Episodes) Outcomes(work types.NamespacedName) map[fleetv1alpha1.DriftOutcome]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	var outcomes map[fleetv1alpha1.DriftOutcome]bool
	for _, o := range e.objects[work] {
		for _, field := range o.standing {
			if outcomes == nil {
				outcomes = map[fleetv1alpha1.DriftOutcome]bool{}
			}
			outcomes[field.Outcome] = true
		}
	}
	return outcomes
}

// Dispute returns whether objects of a Work were put back so often within the last minutes that another client repeats its change, and for
// how long that will be so without another repair.
func (e *Episodes) Dispute(work types.NamespacedName) (disputed bool, remaining time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	for _, o := range e.objects[work] {
		if len(o.recent) < disputeRepairs {
			continue
		}
		if left := disputeSpan - now.Sub(o.recent[disputeRepairs-1].Time.Time); left > 0 {
			disputed, remaining = true, max(remaining, left)
		}
	}
	return disputed, remaining
}

// at returns the object of a key, a new one if its last episode is over. When there are too many, the oldest of the cluster goes, or
// the oldest of all.
func (e *Episodes) at(key Key, now time.Time) *object {
	o := e.objects[key.Work][key.Object]
	if o != nil && !o.over(now) {
		return o
	}
	if o == nil {
		if e.counts[key.Cluster] >= MaxObjects {
			e.dropOldest(key.Cluster)
		} else if e.total >= MaxAll {
			e.dropOldest("")
		}
		if e.objects[key.Work] == nil {
			e.objects[key.Work] = map[fleetv1alpha1.ObjectIdentity]*object{}
		}
		e.counts[key.Cluster]++
		e.total++
	}
	o = &object{cluster: key.Cluster, since: now, last: now}
	e.objects[key.Work][key.Object] = o
	return o
}

// over returns whether the episode of an object has ended.
func (o *object) over(now time.Time) bool {
	return len(o.standing) == 0 && now.Sub(o.last) >= EpisodeGap
}

// dropOldest removes the object of a cluster, "" for any, of which nothing was found for the longest time.
func (e *Episodes) dropOldest(cluster string) {
	var work types.NamespacedName
	var identity fleetv1alpha1.ObjectIdentity
	var oldest *object
	for w, objects := range e.objects {
		for id, o := range objects {
			if (cluster == "" || o.cluster == cluster) && (oldest == nil || o.last.Before(oldest.last)) {
				work, identity, oldest = w, id, o
			}
		}
	}
	if oldest != nil {
		e.drop(work, identity)
	}
}

func (e *Episodes) drop(work types.NamespacedName, identity fleetv1alpha1.ObjectIdentity) {
	o := e.objects[work][identity]
	delete(e.objects[work], identity)
	if len(e.objects[work]) == 0 {
		delete(e.objects, work)
	}
	if e.counts[o.cluster]--; e.counts[o.cluster] == 0 {
		delete(e.counts, o.cluster)
	}
	e.total--
}

// Forget drops a Work that is gone.
func (e *Episodes) Forget(work types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for identity := range e.objects[work] {
		e.drop(work, identity)
	}
}

// List returns the objects of a cluster, "" for all, in an order that does not depend on when they were found. Those whose episode is
// over are dropped.
func (e *Episodes) List(cluster string) []fleetv1alpha1.DriftedObject {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	var list []fleetv1alpha1.DriftedObject
	for work, objects := range e.objects {
		for identity, o := range objects {
			switch {
			case o.over(now):
				e.drop(work, identity)
			case (cluster == "" || o.cluster == cluster) && len(o.standing)+len(o.repaired) > 0:
				list = append(list, o.report(work.Name, identity))
			}
		}
	}
	slices.SortFunc(list, func(a, b fleetv1alpha1.DriftedObject) int {
		return cmp.Or(strings.Compare(a.Object.Namespace, b.Object.Namespace), strings.Compare(a.Object.Kind, b.Object.Kind),
			strings.Compare(a.Object.Name, b.Object.Name), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Work, b.Work))
	})
	return list
}

// report is the object as a DriftReport has it. A field that stands is not shown as put back before, too.
func (o *object) report(work string, identity fleetv1alpha1.ObjectIdentity) fleetv1alpha1.DriftedObject {
	out := fleetv1alpha1.DriftedObject{
		Object: identity, Cluster: o.cluster, Work: work, Since: metav1.NewTime(o.since), Last: metav1.NewTime(o.last),
		PutBack: o.putBack, Recent: slices.Clone(o.recent), Fields: slices.Clone(o.standing),
		OmittedFields: int32(o.standingOmitted + o.repairedOmitted),
	}
	for _, field := range o.repaired {
		if !slices.ContainsFunc(o.standing, func(f fleetv1alpha1.DriftedField) bool { return f.Path == field.Path }) {
			out.Fields = append(out.Fields, field)
		}
	}
	slices.SortFunc(out.Fields, func(a, b fleetv1alpha1.DriftedField) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Stands returns whether an object differs now, as far as is known.
func Stands(o *fleetv1alpha1.DriftedObject) bool { return slices.ContainsFunc(o.Fields, IsStanding) }

// IsStanding returns whether a field differs now, as far as is known.
func IsStanding(f fleetv1alpha1.DriftedField) bool {
	return f.Outcome != fleetv1alpha1.DriftPutBack && f.Outcome != fleetv1alpha1.DriftCreatedAgain
}
