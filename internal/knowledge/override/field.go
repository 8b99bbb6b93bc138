package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// overridePlaintext makes one JSON patch step on the whole object.
func overridePlaintext(object map[string]any, o policyv1alpha1.PlaintextOverrider) error {
	if o.Path == "" {
		return errRoot
	}
	op, err := newOperation(o.Path, o.Operator, o.Value)
	if err != nil {
		return err
	}
	_, err = op.run(object)
	return err
}

// overrideMetadata edits metadata.labels or metadata.annotations. Remove and replace touch only keys that exist.
func overrideMetadata(object map[string]any, field string, o policyv1alpha1.LabelAnnotationOverrider) error {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return errors.New("the object has no metadata")
	}
	entries, ok := metadata[field].(map[string]any)
	if !ok {
		if metadata[field] != nil {
			return fmt.Errorf("the %s are no map", field)
		}
		if o.Operator != policyv1alpha1.OverriderOpAdd || len(o.Value) == 0 {
			return nil
		}
		entries = map[string]any{}
		metadata[field] = entries
	}
	for key, value := range o.Value {
		_, exists := entries[key]
		switch {
		case o.Operator == policyv1alpha1.OverriderOpAdd || exists && o.Operator == policyv1alpha1.OverriderOpReplace:
			entries[key] = value
		case exists && o.Operator == policyv1alpha1.OverriderOpRemove:
			delete(entries, key)
		}
	}
	return nil
}

// overrideField edits a JSON or YAML document that a string field of the object holds, such as a file in a ConfigMap. It returns
// the path that failed.
func overrideField(object map[string]any, o policyv1alpha1.FieldOverrider) (string, error) {
	if o.FieldPath == "" {
		return "", errRoot
	}
	text, err := lookupText(object, o.FieldPath, "document")
	if err != nil {
		return o.FieldPath, err
	}
	steps := make([]step, 0, len(o.JSON)+len(o.YAML))
	for _, s := range o.JSON {
		steps = append(steps, step{s.SubPath, s.Operator, s.Value, editJSON})
	}
	for _, s := range o.YAML {
		steps = append(steps, step{s.SubPath, s.Operator, s.Value, editYAML})
	}
	for _, s := range steps {
		op, err := newOperation(s.subPath, s.operator, s.value)
		if err == nil {
			text, err = s.edit(text, op)
		}
		if err != nil {
			// The hash keeps the path in the document apart from the path in the object.
			return o.FieldPath + "#" + s.subPath, err
		}
	}
	_, err = operation{path: o.FieldPath, operator: policyv1alpha1.OverriderOpReplace, value: text}.run(object)
	return o.FieldPath, err
}

// step is an edit inside a document, in either notation.
type step struct {
	subPath  string
	operator policyv1alpha1.OverriderOperator
	value    apiextensionsv1.JSON
	edit     func(text string, op operation) (string, error)
}

// editJSON keeps numbers as they are written: a document that is not ours must not lose digits.
func editJSON(text string, op operation) (string, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return "", fmt.Errorf("reading the JSON document: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("the field holds more than one JSON document")
	}
	document, err := op.run(document)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return "", fmt.Errorf("writing the JSON document: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
