package declarative

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
)

// isFinished is the function that returns whether an object ran to its end.
const isFinished = "IsFinished"

// script is a function of a program, or the reason why it does not compile.
type script struct {
	store    *Store
	origin   string // the customization's name
	function string
	program  *sandbox.Program
	err      error
}

// call runs the script's function.
func (s script) call(ctx context.Context, results int, args []any, take sandbox.Take) error {
	err := s.err
	if err == nil {
		err = s.store.machines.Call(ctx, s.program, s.function, results, args, take)
	}
	if err != nil {
		return fmt.Errorf("customization %s: %w", s.origin, err)
	}
	return nil
}

// operations compiles the scripts of one kind's customizations, which come in the order of their precedence.
func (s *Store) operations(list []*configv1alpha1.ResourceInterpreterCustomization) *interpret.Operations {
	programs, found := compiler{}, map[string][]script{}
	for _, customization := range list {
		for _, r := range rules(customization) {
			if len(found[r.Name]) > 0 && r.Operation != configv1alpha1.InterpreterOperationInterpretDependency {
				continue
			}
			compiled := script{store: s, origin: customization.Name, function: r.Name}
			compiled.program, compiled.err = programs.compile(r)
			found[r.Name] = append(found[r.Name], compiled)
		}
	}
	operations := &interpret.Operations{}
	for _, function := range Functions() {
		if scripts := found[function.Name]; len(scripts) > 0 {
			function.assign(operations, scripts)
		}
	}
	// The API has no field for it: the script of the health may define it, too.
	if scripts := found["InterpretHealth"]; len(scripts) > 0 && scripts[0].err == nil && scripts[0].program.Defines(isFinished) {
		health := scripts[0]
		health.function = isFinished
		operations.Finished = health.finished
	}
	return operations
}

func (s script) replicas(ctx context.Context, obj *unstructured.Unstructured) (interpret.ReplicaResult, error) {
	result := interpret.ReplicaResult{Known: true}
	err := s.call(ctx, 3, []any{obj.Object}, func(t *sandbox.Values, answers []lua.LValue) error {
		if answers[0].Type() != lua.LTNumber {
			return fmt.Errorf("the number of replicas is a %s", answers[0].Type())
		}
		if err := t.Decode(answers[0], &result.Replicas); err != nil {
			return err
		}
		if result.Replicas < 0 {
			return errors.New("the number of replicas is negative")
		}
		switch identities := interpret.Identities(lua.LVAsString(answers[2])); identities {
		case interpret.Anonymous, interpret.Whole, interpret.Named:
			result.Identities = identities
		default:
			return fmt.Errorf("the replicas are %q, neither %s nor %s", identities, interpret.Whole, interpret.Named)
		}
		if answers[1] == lua.LNil {
			return nil
		}
		result.Requirements = &workv1alpha2.ReplicaRequirements{}
		return t.Decode(answers[1], result.Requirements)
	})
	if err != nil {
		return interpret.ReplicaResult{}, err
	}
	return result, nil
}

func (s script) components(ctx context.Context, obj *unstructured.Unstructured) ([]workv1alpha2.Component, error) {
	var components []workv1alpha2.Component
	err := s.call(ctx, 1, []any{obj.Object}, func(t *sandbox.Values, answers []lua.LValue) error {
		return decodeList(t, answers[0], &components)
	})
	return components, err
}

func (s script) revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	return s.object(ctx, obj, obj.Object, replicas)
}

func (s script) retain(ctx context.Context, desired, observed *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.object(ctx, desired, desired.Object, observed.Object)
}

// object is a call that returns an object in the place of the given one. It has to be of the same kind and name.
func (s script) object(ctx context.Context, original *unstructured.Unstructured, args ...any) (*unstructured.Unstructured, error) {
	var result *unstructured.Unstructured
	err := s.call(ctx, 1, args, func(t *sandbox.Values, answers []lua.LValue) error {
		value, err := t.Result(answers[0], original.Object)
		if err != nil {
			return err
		}
		fields, ok := value.(map[string]any)
		if !ok {
			return errors.New("it is not an object")
		}
		result = &unstructured.Unstructured{Object: fields}
		return interpret.SameObject(original, result)
	})
	return result, err
}

func (s script) aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list, err := itemValues(items)
	if err != nil {
		return nil, err
	}
	result, err := s.object(ctx, template, template.Object, list)
	if err != nil {
		return nil, err
	}
	status, _ := result.Object["status"].(map[string]any)
	return interpret.WithStatus(template, status), nil
}

// itemValues turns items into the values that a script receives.
func itemValues(items []workv1alpha2.AggregatedStatusItem) ([]any, error) {
	data, err := json.Marshal(items)
	if err != nil {
		return nil, fmt.Errorf("encoding the statuses: %w", err)
	}
	list := []any{}
	if err := utiljson.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decoding the statuses: %w", err)
	}
	return list, nil
}

func (s script) reflect(ctx context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	var status *runtime.RawExtension
	err := s.call(ctx, 1, []any{obj.Object}, func(t *sandbox.Values, answers []lua.LValue) error {
		if answers[0] == lua.LNil {
			return nil
		}
		value, err := t.Result(answers[0], obj.Object["status"])
		if err != nil {
			return err
		}
		data, err := json.Marshal(value)
		status = &runtime.RawExtension{Raw: data}
		return err
	})
	return status, err
}

func (s script) health(ctx context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	health := workv1alpha2.ResourceUnhealthy
	err := s.call(ctx, 1, []any{obj.Object}, func(_ *sandbox.Values, answers []lua.LValue) error {
		healthy, ok := answers[0].(lua.LBool)
		if !ok {
			return fmt.Errorf("it is a %s, not true or false", answers[0].Type())
		}
		if healthy {
			health = workv1alpha2.ResourceHealthy
		}
		return nil
	})
	return health, err
}

func (s script) finished(ctx context.Context, obj *unstructured.Unstructured) (finished bool, err error) {
	err = s.call(ctx, 1, []any{obj.Object}, func(_ *sandbox.Values, answers []lua.LValue) error {
		answer, ok := answers[0].(lua.LBool)
		if !ok {
			return fmt.Errorf("it is a %s, not true or false", answers[0].Type())
		}
		finished = bool(answer)
		return nil
	})
	return finished, err
}

// dependenciesOf lists what any of the scripts returns.
func dependenciesOf(scripts []script) func(context.Context, *unstructured.Unstructured) ([]interpret.Dependency, error) {
	return func(ctx context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
		var all []interpret.Dependency
		for _, s := range scripts {
			err := s.call(ctx, 1, []any{obj.Object}, func(t *sandbox.Values, answers []lua.LValue) error {
				var found []interpret.Dependency
				err := decodeList(t, answers[0], &found)
				all = append(all, found...)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return interpret.SortDependencies(all), nil
	}
}

// decodeList decodes a list; nil and an empty table are an empty one.
func decodeList(t *sandbox.Values, value lua.LValue, into any) error {
	if value == lua.LNil || t.Empty(value) {
		return nil
	}
	return t.Decode(value, into)
}
