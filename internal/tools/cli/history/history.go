package history

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newHistoryCommand(s), newUndoCommand(s), newUndeleteCommand(s), newTimelineCommand(s)}
}

// object is the object that a command is about.
type object struct {
	hub       cli.HubAccess
	namespace string
	kind      string
	name      string
}

func (o *object) flags(c *cobra.Command) {
	o.hub.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the object")
}

// parse reads TYPE/NAME, or TYPE NAME.
func (o *object) parse(command string, args []string) error {
	kind, name, found := strings.Cut(strings.Join(args, "/"), "/")
	if !found || len(args) > 2 || kind == "" || name == "" || strings.Contains(name, "/") {
		return cli.UsageErrorf("%s needs one object\nname it as TYPE/NAME, such as deployment/nginx", command)
	}
	o.kind, o.name = kind, name
	return nil
}

// ask reads the history of the object, with the contents of some revisions.
func (o *object) ask(ctx context.Context, cfg *rest.Config, contents ...int64) (*fleetv1alpha1.History, schema.GroupVersionResource, error) {
	resource, err := cli.Resolve(cfg, o.kind)
	if err != nil {
		return nil, resource, err
	}
	question := &fleetv1alpha1.History{
		TypeMeta: metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindHistory},
		Spec:     fleetv1alpha1.HistorySpec{Group: resource.Group, Resource: resource.Resource, Namespace: o.namespace, Name: o.name, Contents: contents},
	}
	if err := cli.Ask(ctx, cfg, fleetv1alpha1.ResourcePluralHistory, question); err != nil {
		return nil, resource, err
	}
	if question.Status.Object == nil {
		return nil, resource, fmt.Errorf("there is no %s %s\nif it was deleted, list what can be brought back: flagship undelete -n %s", resource.Resource, o.name, o.namespace)
	}
	if len(question.Status.Revisions) == 0 {
		return nil, resource, fmt.Errorf("%s %s is in no cluster, and has no history\nsee why: flagship explain %s/%s -n %s", resource.Resource, o.name, o.kind, o.name, o.namespace)
	}
	return question, resource, nil
}

type historyOptions struct {
	object
	// diff is the flag, and what it means.
	diff     []string
	from, to int64
	compare  bool
	out      cli.Output
}

func newHistoryCommand(s cli.Streams) *cobra.Command {
	var o historyOptions
	c := &cobra.Command{
		Use:   "history TYPE/NAME",
		Short: "Show what an object was, who changed it, and when",
		Long: `Shows the revisions of an object: each change of the template, of the policy that it belongs to, of the override policies that
select it, or of its clusters and replicas. The current one has a star. A change is recorded some seconds after it was made.`,
		Example: `  flagship history deployment/nginx -n shop
  flagship history deployment/nginx --diff 3 5
  flagship history deployment/nginx --diff 3      # with what is now`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := o.revisions(args, cmd.Flags().Changed("diff"))
			if err != nil {
				return err
			}
			if err := o.parse("history", args); err != nil {
				return err
			}
			if err := o.out.Check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), s)
		},
	}
	o.flags(c)
	o.out.Flags(c)
	c.Flags().StringSliceVar(&o.diff, "diff", nil, "show the fields that differ between two revisions, as 3 5 or 3,5; a single one is compared with what is now")
	return c
}

// revisions reads the flag --diff and returns the arguments that name the object. A flag takes one word: the second revision of --diff 3 5
// is an argument, before or after those of the object, which never begin with a number.
func (o *historyOptions) revisions(args []string, compare bool) ([]string, error) {
	if o.compare = compare; !compare {
		return args, nil
	}
	named := slices.Clone(o.diff)
	for len(args) > 0 && isNumber(args[0]) {
		named, args = append(named, args[0]), args[1:]
	}
	words := 2 // TYPE NAME
	if len(args) > 0 && strings.Contains(args[0], "/") {
		words = 1
	}
	if len(args) > words {
		named, args = append(named, args[words:]...), args[:words]
	}
	if len(named) == 0 || len(named) > 2 {
		return nil, cli.UsageErrorf("--diff compares two revisions, or one with what is now, not %d\nname them as --diff 3 5 or --diff 3,5", len(named))
	}
	numbers := []int64{0, 0} // 0 is what is now
	for i, name := range named {
		if !isNumber(name) {
			return nil, cli.UsageErrorf("--diff takes numbers of revisions, and %q is none\nname them as --diff 3 5 or --diff 3,5; flagship history lists them", name)
		}
		var err error
		if numbers[i], err = strconv.ParseInt(name, 10, 64); err != nil {
			return nil, cli.UsageErrorf("--diff: there is no revision %s\nflagship history lists those that are recorded", name)
		}
	}
	o.from, o.to = numbers[0], numbers[1]
	return args, nil
}

// isNumber returns whether a word consists of digits.
func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

func (o *historyOptions) run(ctx context.Context, s cli.Streams) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	var contents []int64
	if o.compare {
		contents = slices.Compact([]int64{o.from, o.to})
	}
	answer, _, err := o.ask(ctx, cfg, contents...)
	if err != nil {
		return err
	}
	if o.compare {
		return o.difference(s, answer, o.from, o.to)
	}
	rows := make([][]string, 0, len(answer.Status.Revisions))
	for _, r := range answer.Status.Revisions {
		rows = append(rows, row(r, time.Now()))
	}
	if err := o.out.Print(s, answer, "REVISION AGE BY CHANGED", rows); err != nil {
		return err
	}
	if n := answer.Status.Unreadable; n > 0 {
		fmt.Fprintf(s.Err, "%d ControllerRevisions with the label of this object were not written by the control plane, and are ignored\n", n)
	}
	return nil
}

// row is the row of a revision in the table.
func row(r fleetv1alpha1.Revision, now time.Time) []string {
	number, age := strconv.FormatInt(r.Revision, 10), "-"
	if r.Revision == 0 {
		number = "now"
	}
	if r.Current {
		number += "*"
	}
	if r.Time != nil {
		age = duration.HumanDuration(now.Sub(r.Time.Time))
	}
	return []string{number, age, by(r.User, r.Manager), cli.OrNone(changes(r.Changes))}
}

// by is who made a change.
func by(user, manager string) string {
	switch {
	case user != "":
		return user
	case manager != "":
		return "(" + manager + ")"
	}
	return "-"
}

func changes(all []fleetv1alpha1.RevisionChange) string {
	texts := make([]string, 0, len(all))
	for _, change := range all {
		if change.Hidden {
			texts = append(texts, strings.ToLower(string(change.Part))+" (hidden)")
			continue
		}
		texts = append(texts, change.Text)
	}
	return strings.Join(texts, "; ")
}

// difference prints the fields that differ.
func (o *historyOptions) difference(s cli.Streams, answer *fleetv1alpha1.History, from, to int64) error {
	before, err := content(answer, from)
	if err != nil {
		return err
	}
	after, err := content(answer, to)
	if err != nil {
		return err
	}
	var all []edited
	was, is := before.objects(), after.objects()
	for _, key := range append(slices.Clone(was.order), is.order...) {
		if slices.ContainsFunc(all, func(e edited) bool { return e.Object == key }) {
			continue
		}
		switch {
		case was.byKey[key] == nil:
			all = append(all, edited{key, []fleetv1alpha1.FieldEdit{{Path: ".", To: "added"}}})
		case is.byKey[key] == nil:
			all = append(all, edited{key, []fleetv1alpha1.FieldEdit{{Path: ".", To: "removed"}}})
		default:
			if fields := history.Edits(was.byKey[key], is.byKey[key]); len(fields) > 0 {
				all = append(all, edited{key, fields})
			}
		}
	}
	if fields := history.Edits(before.clusters(), after.clusters()); len(fields) > 0 {
		all = append(all, edited{"clusters", fields})
	}
	var rows [][]string
	for _, e := range all {
		for _, f := range e.Fields {
			rows = append(rows, []string{e.Object, f.Path, cli.OrNone(f.From), cli.OrNone(f.To)})
		}
	}
	if err := o.out.Print(s, all, "OBJECT FIELD FROM TO", rows); err != nil {
		return err
	}
	for _, part := range append(slices.Clone(before.Hidden), after.Hidden...) {
		fmt.Fprintf(s.Err, "%s: hidden, since you may not get it\n", strings.ToLower(string(part)))
	}
	return nil
}

// edited is an object with the fields that differ.
type edited struct {
	Object string                    `json:"object"`
	Fields []fleetv1alpha1.FieldEdit `json:"fields"`
}

// decoded is the content of a revision.
type decoded struct {
	fleetv1alpha1.RevisionContent
	template, policy map[string]any
	overrides        []map[string]any
}

// content finds the content of a revision in an answer.
func content(answer *fleetv1alpha1.History, number int64) (*decoded, error) {
	at := slices.IndexFunc(answer.Status.Contents, func(c fleetv1alpha1.RevisionContent) bool { return c.Revision == number })
	if at < 0 {
		var known []string
		for _, r := range answer.Status.Revisions {
			if r.Revision == number && r.TooLargeBytes > 0 {
				return nil, fmt.Errorf("revision %d was too large to be stored (%d bytes), so that it has no content\nuse another one: flagship history lists them", number, r.TooLargeBytes)
			}
			if r.Revision != 0 && r.TooLargeBytes == 0 {
				known = append(known, strconv.FormatInt(r.Revision, 10))
			}
		}
		return nil, fmt.Errorf("there is no revision %d\nrecorded are: %s", number, cli.OrNone(strings.Join(known, ", ")))
	}
	return decodedOf(answer.Status.Contents[at])
}

func decodedOf(content fleetv1alpha1.RevisionContent) (*decoded, error) {
	d := &decoded{RevisionContent: content}
	var err error
	if d.template, err = decode(d.Template); err != nil {
		return nil, err
	}
	if d.policy, err = decode(d.Policy); err != nil {
		return nil, err
	}
	for _, o := range d.Overrides {
		override, err := decode(o.Object)
		if err != nil {
			return nil, err
		}
		d.overrides = append(d.overrides, override)
	}
	return d, nil
}

// decode reads an object, nil if there is none.
func decode(raw *runtime.RawExtension) (map[string]any, error) {
	if raw == nil {
		return nil, nil
	}
	var object map[string]any
	if err := utiljson.Unmarshal(raw.Raw, &object); err != nil {
		return nil, fmt.Errorf("reading a revision: %w", err)
	}
	return object, nil
}

// objectSet is the objects of a revision by kind and name.
type objectSet struct {
	order []string
	byKey map[string]map[string]any
}

func (d *decoded) objects() objectSet {
	set := objectSet{byKey: map[string]map[string]any{}}
	for _, object := range append([]map[string]any{d.template, d.policy}, d.overrides...) {
		if object != nil {
			key := nameOf(object)
			set.order, set.byKey[key] = append(set.order, key), object
		}
	}
	return set
}

// clusters are the targets as an object, for a comparison.
func (d *decoded) clusters() map[string]any {
	all := map[string]any{}
	for _, c := range d.Clusters {
		all[c.Name] = int64(c.Replicas)
	}
	return all
}
