package memberevents

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// maxOfWork, maxOfMember and maxOfTemplate bound what is kept. The Warnings that were repeated least recently are dropped.
	maxOfWork, maxOfMember, maxOfTemplate = 10, workv1alpha1.MaxRecordedEvents, 16
	// lifetime is how long a Warning is kept after it was last repeated, as long as API servers keep an Event.
	lifetime = time.Hour
	// refresh is how often a Warning that is repeated is reported again.
	refresh = 10 * time.Minute
	// maxMessage, maxWord and maxName bound the parts of a Warning, in bytes.
	maxMessage, maxWord, maxName = 512, 64, 253
	// maxNamed is how many clusters a message names.
	maxNamed = 5
)

// Subject is what a Warning is about. Equal Subjects are the same Warning.
type Subject struct {
	// Work is the name of the Work in the execution namespace of the cluster.
	Work string
	// Kind and Object are the object in the member. Object ends with "-*" if its name was made from that of the object of the Work.
	Kind, Object string
	// FieldPath is the part of the object, such as spec.containers{web}.
	FieldPath string
	// Reason and Message are those of the Event in the member.
	Reason, Message string
}

// Warning is a Subject, and when a member last repeated it.
type Warning struct {
	Subject
	Last time.Time
}

// subjectOf makes a Subject of an Event about an object that belongs to root, the object of a Work.
func subjectOf(e *corev1.Event, work, root string) Subject {
	about := e.InvolvedObject
	object, message := about.Name, e.Message
	if about.UID != "" {
		message = strings.ReplaceAll(message, "("+string(about.UID)+")", "")
	}
	// A controller names the pod that it could not create.
	message = regexp.MustCompile(regexp.QuoteMeta(object)+`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`).ReplaceAllLiteralString(message, root+"-*")
	if strings.HasPrefix(object, root+"-") {
		object = root + "-*"
		message = strings.ReplaceAll(message, about.Name, object)
	}
	return Subject{Work: work, Kind: about.Kind, Object: object, FieldPath: about.FieldPath, Reason: e.Reason, Message: message}.bounded()
}

// bounded has texts that are fit for a user of another cluster: of bounded size and without control characters.
func (s Subject) bounded() Subject {
	s.Kind, s.Reason = word(s.Kind), word(s.Reason)
	s.Object, s.FieldPath, s.Message = text(s.Object, maxName), text(s.FieldPath, maxName), text(s.Message, maxMessage)
	return s
}

// word leaves the letters and digits of a text.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, s[:min(len(s), maxWord)])
	return cmp.Or(s, "Unknown")
}

// text replaces everything that is not printable, marks of the direction of writing included, by spaces, and cuts what is too long.
func text(s string, most int) string {
	cut := len(s) > most
	if cut {
		s = s[:most-3]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " ")
	if cut {
		s += "..."
	}
	return s
}

// set has the Warnings of one member.
type set map[Subject]*times

// times are when a Warning was last repeated, and when it was last reported.
type times struct{ last, reported time.Time }

// add adds a Warning, and returns whether it has to be reported.
func (s set) add(subject Subject, at time.Time) bool {
	if known, ok := s[subject]; ok {
		if at.After(known.last) {
			known.last = at
		}
		return known.last.Sub(known.reported) >= refresh
	}
	s.limit(maxOfWork, func(other Subject) bool { return other.Work == subject.Work })
	s.limit(maxOfMember, func(Subject) bool { return true })
	s[subject] = &times{last: at}
	return true
}

// limit drops the oldest of the Warnings that match if there are most of them.
func (s set) limit(most int, matches func(Subject) bool) {
	count, oldest := 0, (*Subject)(nil)
	for subject, t := range s {
		if !matches(subject) {
			continue
		}
		count++
		if oldest == nil || t.last.Before(s[*oldest].last) {
			oldest = &subject
		}
	}
	if count >= most {
		delete(s, *oldest)
	}
}

// report drops Warnings that are too old, and returns the others, always in the same order.
func (s set) report(now time.Time) []Warning {
	maps.DeleteFunc(s, func(_ Subject, t *times) bool { return now.Sub(t.last) >= lifetime })
	warnings := make([]Warning, 0, len(s))
	for subject, t := range s {
		t.reported = t.last
		warnings = append(warnings, Warning{subject, t.last})
	}
	slices.SortFunc(warnings, func(a, b Warning) int { return strings.Compare(a.hash(), b.hash()) })
	return warnings
}

// hash identifies a Subject in names.
func (s Subject) hash() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q", s)
	return fmt.Sprintf("%016x", h.Sum64())
}

// accept makes a report of an untrusted cluster a set of Warnings: bounded in number and in size, none of the future and none too old.
func accept(report []Warning, now time.Time) set {
	s := set{}
	for _, w := range report[:min(len(report), maxOfMember)] {
		if w.Last.After(now) {
			w.Last = now
		}
		if now.Sub(w.Last) < lifetime {
			s.add(w.bounded(), w.Last)
		}
	}
	return s
}

// combined is the same Warning of several clusters.
type combined struct {
	Subject // without Work
	// clusters are those that have it, in order.
	clusters []string
	// last is when one of them last repeated it.
	last time.Time
}

// combine returns the Warnings of clusters about one template, those of most clusters first.
func combine(byCluster map[string][]Warning, now time.Time) []combined {
	all := map[Subject]*combined{}
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		for _, w := range byCluster[cluster] {
			if now.Sub(w.Last) >= lifetime {
				continue
			}
			w.Work = "" // a template may have several Works in a cluster
			c := all[w.Subject]
			if c == nil {
				c = &combined{Subject: w.Subject}
				all[w.Subject] = c
			}
			if !slices.Contains(c.clusters, cluster) {
				c.clusters = append(c.clusters, cluster)
			}
			if w.Last.After(c.last) {
				c.last = w.Last
			}
		}
	}
	list := make([]combined, 0, len(all))
	for _, c := range all {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b combined) int {
		return cmp.Or(cmp.Compare(len(b.clusters), len(a.clusters)), b.last.Compare(a.last), strings.Compare(a.hash(), b.hash()))
	})
	return list[:min(len(list), maxOfTemplate)]
}

// message is that of the Event on the template.
func (c combined) message() string {
	where := c.clusters[0]
	if n := len(c.clusters); n > 1 {
		named := c.clusters[:min(n, maxNamed)]
		where = fmt.Sprintf("%d clusters (%s", n, strings.Join(named, ", "))
		if n > maxNamed {
			where += ", ..."
		}
		where += ")"
	}
	return fmt.Sprintf("%s: %s %s: %s", where, c.Kind, c.Object, c.Message)
}

// fieldPath makes the Event one of its own: Events in memory are the same if they have an object, with its field path, and a reason in
// common, and those of the stages have no field path.
func (c combined) fieldPath() string { return c.Kind + "/" + c.FieldPath + "/" + c.hash() }

// grown returns whether c has to be published after before was: it was repeated since, or in further clusters.
func (c combined) grown(before combined) bool {
	return c.last.After(before.last) || !sets.New(before.clusters...).HasAll(c.clusters...)
}
