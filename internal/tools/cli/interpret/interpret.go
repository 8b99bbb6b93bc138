package interpret

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// NewCommand tries customizations on files.
func NewCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "interpret",
		Short: "Try a ResourceInterpreterCustomization on files, without a control plane",
		Example: `  flagship interpret check -f customization.yaml
  flagship interpret execute -f customization.yaml --operation InterpretHealth --observed-file object.yaml
  flagship interpret execute --operation InterpretReplica --observed-file deployment.yaml    # the interpreters of the control plane itself`,
	}
	c.AddCommand(newInterpretCheckCommand(s), newInterpretExecuteCommand(s))
	return c
}

func newInterpretCheckCommand(s cli.Streams) *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "check -f FILE...",
		Short: "Say whether the scripts of customizations compile",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			customizations, err := readCustomizations(s.In, files)
			if err != nil {
				return err
			}
			return checkCustomizations(s.Out, customizations)
		},
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "files with customizations; - is standard input")
	return c
}

// checkCustomizations prints a line per customization, and fails if one of them is wrong.
func checkCustomizations(out io.Writer, customizations []*configv1alpha1.ResourceInterpreterCustomization) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CUSTOMIZATION\tTARGET\tRESULT")
	wrong := 0
	for _, c := range customizations {
		result := "ok"
		if errs := declarative.Check(c); len(errs) > 0 {
			result = errs.ToAggregate().Error()
			wrong++
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\n", c.Name, c.Spec.Target.APIVersion, c.Spec.Target.Kind, result)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d customizations would be refused: correct the scripts named above", wrong, len(customizations))
	}
	return nil
}

// execution is one call of a script.
type execution struct {
	files                     []string
	operation                 string
	observed, desired, status string
	replicas                  int32
}

func newInterpretExecuteCommand(s cli.Streams) *cobra.Command {
	var e execution
	c := &cobra.Command{
		Use:   "execute [-f FILE...] --operation OPERATION",
		Short: "Run one operation of a customization on an object",
		Long: `Runs one operation and prints what the control plane would get from it. Where no customization given answers, and
without it, those that are built in are used. Operations and the files they need:

  InterpretReplica, InterpretComponent, InterpretStatus,
  InterpretHealth, InterpretDependency                     --observed-file
  ReviseReplica                                            --desired-file --desired-replica
  Retain                                                   --desired-file --observed-file
  AggregateStatus                                          --desired-file --status-file (a list of aggregated status items)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := e.run(cmd.Context(), s)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(result)
			if err != nil {
				return fmt.Errorf("printing the result: %w", err)
			}
			_, err = s.Out.Write(text)
			return err
		},
	}
	f := c.Flags()
	f.StringSliceVarP(&e.files, "filename", "f", nil, "files with customizations; - is standard input")
	f.StringVar(&e.operation, "operation", "", "what to ask")
	f.StringVar(&e.observed, "observed-file", "", "the object as it is in a member")
	f.StringVar(&e.desired, "desired-file", "", "the object as the control plane applies it")
	f.StringVar(&e.status, "status-file", "", "what the clusters report")
	f.Int32Var(&e.replicas, "desired-replica", 0, "how many replicas the object shall ask for")
	return c
}

func (e execution) run(ctx context.Context, s cli.Streams) (any, error) {
	store := declarative.New()
	if len(e.files) > 0 {
		customizations, err := readCustomizations(s.In, e.files)
		if err != nil {
			return nil, err
		}
		store.Set(customizations)
	}
	file := e.observed
	switch configv1alpha1.InterpreterOperation(e.operation) {
	case configv1alpha1.InterpreterOperationReviseReplica, configv1alpha1.InterpreterOperationRetain,
		configv1alpha1.InterpreterOperationAggregateStatus:
		file = e.desired
	}
	obj, err := readObject(file)
	if err != nil {
		return nil, err
	}
	chain, err := interpreter.New(clock.RealClock{}, store)
	if err != nil {
		return nil, err
	}
	kind, operation := obj.GroupVersionKind(), configv1alpha1.InterpreterOperation(e.operation)
	if !chain.Supports(kind, operation) {
		return nil, cli.UsageErrorf("no interpreter has %q for %s, neither the given customizations nor the built-in ones: see 'flagship interpret execute --help'",
			operation, kind)
	}
	if len(e.files) > 0 && !interpret.Chain(store).Supports(kind, operation) {
		fmt.Fprintf(s.Err, "No customization given answers %s for %s: this is the answer of the interpreters of the control plane itself.\n", operation, kind)
	}
	return e.ask(ctx, chain, obj)
}

// ask puts the question and returns the answer in a printable form.
func (e execution) ask(ctx context.Context, chain *interpret.Chained, obj *unstructured.Unstructured) (any, error) {
	switch configv1alpha1.InterpreterOperation(e.operation) {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		r, err := chain.Replicas(ctx, obj)
		return map[string]any{"replicas": r.Replicas, "requires": r.Requirements}, err
	case configv1alpha1.InterpreterOperationInterpretComponent:
		return answer(chain.Components(ctx, obj))
	case configv1alpha1.InterpreterOperationInterpretStatus:
		raw, err := chain.Reflect(ctx, obj)
		return map[string]any{"status": raw}, err
	case configv1alpha1.InterpreterOperationInterpretHealth:
		health, err := chain.Health(ctx, obj)
		return map[string]any{"healthy": health == workv1alpha2.ResourceHealthy}, err
	case configv1alpha1.InterpreterOperationInterpretDependency:
		return answer(chain.Dependencies(ctx, obj))
	case configv1alpha1.InterpreterOperationReviseReplica:
		return answer(chain.Revise(ctx, obj, e.replicas))
	case configv1alpha1.InterpreterOperationRetain:
		observed, err := readObject(e.observed)
		if err != nil {
			return nil, err
		}
		return answer(chain.Retain(ctx, obj, observed))
	case configv1alpha1.InterpreterOperationAggregateStatus:
		var items []workv1alpha2.AggregatedStatusItem
		text, err := os.ReadFile(e.status)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &items)
		}
		if err != nil {
			return nil, fmt.Errorf("reading --status-file %q: %w", e.status, err)
		}
		return answer(chain.Aggregate(ctx, obj, items))
	}
	return nil, cli.UsageErrorf("unknown operation %q", e.operation)
}

// answer hides the type of an answer.
func answer[T any](value T, err error) (any, error) { return value, err }

func readObject(file string) (*unstructured.Unstructured, error) {
	if file == "" {
		return nil, cli.UsageErrorf("the operation needs an object: see 'flagship interpret execute --help' for the flag")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &obj.Object); err != nil {
		return nil, fmt.Errorf("reading the object in %s: %w", file, err)
	}
	return obj, nil
}

// readCustomizations reads every customization in the files, of which each may hold several documents.
func readCustomizations(in io.Reader, files []string) ([]*configv1alpha1.ResourceInterpreterCustomization, error) {
	if len(files) == 0 {
		return nil, cli.UsageErrorf("no customization given: name a file with -f")
	}
	var out []*configv1alpha1.ResourceInterpreterCustomization
	for _, file := range files {
		var text []byte
		var err error
		if file == "-" {
			text, err = io.ReadAll(in)
		} else {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			return nil, fmt.Errorf("reading customizations: %w", err)
		}
		found, err := parseCustomizations(text)
		if err != nil {
			return nil, fmt.Errorf("reading customizations in %s: %w", file, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func parseCustomizations(text []byte) ([]*configv1alpha1.ResourceInterpreterCustomization, error) {
	var out []*configv1alpha1.ResourceInterpreterCustomization
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(string(document)) == "" {
			continue
		}
		c := &configv1alpha1.ResourceInterpreterCustomization{}
		if err := yaml.UnmarshalStrict(document, c); err != nil {
			return nil, err
		}
		if c.Kind != configv1alpha1.KindResourceInterpreterCustomization {
			return nil, fmt.Errorf("a %s is no %s", c.Kind, configv1alpha1.KindResourceInterpreterCustomization)
		}
		out = append(out, c)
	}
}
