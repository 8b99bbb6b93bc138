package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

const (
	configFlag     = "config"
	variablePrefix = "FLAGSHIP_"
	groupKey       = "flagship.io/group"
)

// AddFlag adds --config.
func AddFlag(f *pflag.FlagSet) {
	f.String(configFlag, "", "configuration file (docs/configuration.md); flags and variables of the environment win over it")
}

// setGroup records the subject of a flag, for the reference.
func setGroup(f *pflag.Flag, group string) {
	f.Annotations = annotated(f, groupKey, group)
}

// Group is the subject of a flag, "" if it has none.
func Group(f *pflag.Flag) string { return strings.Join(f.Annotations[groupKey], "") }

// Field is the name that a flag has in the configuration file.
func Field(flag string) string {
	words := strings.Split(flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// Variable is the name that a flag has in the environment.
func Variable(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// flagOf is the flag of a field: the inverse of Field.
func flagOf(field string) string {
	var name strings.Builder
	for _, r := range field {
		if 'A' <= r && r <= 'Z' {
			name.WriteByte('-')
		}
		name.WriteRune(r)
	}
	return strings.ToLower(name.String())
}

// Fields are the fields of a configuration, but for its apiVersion and kind.
func Fields(configuration runtime.Object) []string {
	var fields []string
	for _, field := range reflect.VisibleFields(reflect.TypeOf(configuration).Elem()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && len(field.Index) == 1 {
			fields = append(fields, name)
		}
	}
	return fields
}

// Apply sets the flags that are not on the command line: from the environment, which lookup reads, or else from the file of --config,
// which must be of the kind of configuration. Empty variables count as not set. It returns every fault that it
// finds, as an error of use that names the field or the variable.
func Apply(flags *pflag.FlagSet, configuration runtime.Object, lookup func(string) (string, bool)) error {
	if err := fromEnvironment(flags, configFlag, lookup); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	path := flags.Lookup(configFlag).Value.String()
	values, err := read(path, configuration)
	if err != nil {
		return cli.UsageErrorf("%s: %w", path, err)
	}
	var faults []error
	for _, field := range Fields(configuration) {
		name := flagOf(field)
		if err := fromEnvironment(flags, name, lookup); err != nil {
			faults = append(faults, err)
		}
		if value, ok := values[field]; ok && !flags.Changed(name) {
			if err := set(flags, name, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", path, field, err))
			}
			f := flags.Lookup(name)
			f.Annotations = annotated(f, fileKey, path)
		}
	}
	if len(faults) > 0 {
		return cli.UsageErrorf("%w", errors.Join(faults...))
	}
	return nil
}

// fromEnvironment sets a flag that is not on the command line from its variable.
func fromEnvironment(flags *pflag.FlagSet, name string, lookup func(string) (string, bool)) error {
	value, _ := lookup(Variable(name))
	if value == "" || flags.Changed(name) {
		return nil
	}
	err := flags.Set(name, value)
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(value, "tcp://"):
		return fmt.Errorf("%s: %w\nKubernetes sets this variable for a Service of that name: set enableServiceLinks: false on the pod", Variable(name), err)
	}
	return fmt.Errorf("%s: %w", Variable(name), err)
}

// read decodes a file, without a path none.
func read(path string, configuration runtime.Object) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return decode(content, configuration)
}

// decode returns the fields that are set. Unknown and duplicate fields, and another version or kind, are errors.
func decode(content []byte, configuration runtime.Object) (map[string]any, error) {
	scheme := runtime.NewScheme()
	configurationv1alpha1.AddToScheme(scheme)
	kinds, _, err := scheme.ObjectKinds(configuration)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of the configuration: %w", err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	decoded, kind, err := decoder.Decode(content, nil, nil)
	if err != nil {
		return nil, err
	}
	if *kind != kinds[0] {
		return nil, fmt.Errorf("its kind is %s; this command reads a %s", kind.Kind, kinds[0].Kind)
	}
	if documents(content) > 1 {
		return nil, errors.New("it has more than one document")
	}
	raw, err := json.Marshal(decoded)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	values, numbers := map[string]any{}, json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // as text, which flags parse
	if err := numbers.Decode(&values); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	return values, nil
}

// documents counts those of YAML, of which the decoder of Kubernetes reads the first alone.
func documents(content []byte) int {
	decoder, count := goyaml.NewDecoder(bytes.NewReader(content)), 0
	for {
		var document any
		if err := decoder.Decode(&document); err != nil {
			return count
		}
		if document != nil {
			count++
		}
	}
}

// set sets a flag to a value of JSON.
func set(flags *pflag.FlagSet, name string, value any) error {
	switch value := value.(type) {
	case []any:
		list, ok := flags.Lookup(name).Value.(pflag.SliceValue)
		if !ok {
			return errors.New("is no list")
		}
		var texts []string
		for _, element := range value {
			texts = append(texts, fmt.Sprint(element))
		}
		return list.Replace(texts)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := flags.Set(name, fmt.Sprintf("%s=%v", key, value[key])); err != nil {
				return err
			}
		}
		return nil
	default:
		return flags.Set(name, fmt.Sprint(value))
	}
}
