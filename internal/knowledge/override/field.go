package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// overridePlaintext makes one JSON patch step on the whole object.
func (b *budget) overridePlaintext(object map[string]any, o policyv1alpha1.PlaintextOverrider) error {
	if o.Path == "" {
		return errRoot
	}
	op, err := b.newOperation(o.Path, o.Operator, o.Value)
	if err != nil {
		return err
	}
	b.changes = true // whether a whole rule changes nothing is in its edits
	_, err = op.run(b, object)
	return err
}

// overrideMetadata edits metadata.labels or metadata.annotations. Remove and replace touch only keys that exist.
func (b *budget) overrideMetadata(object map[string]any, field string, o policyv1alpha1.LabelAnnotationOverrider) error {
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
		if err := b.write(len(key) + len(value)); err != nil {
			return err
		}
		before, exists := entries[key]
		switch {
		case o.Operator == policyv1alpha1.OverriderOpAdd || exists && o.Operator == policyv1alpha1.OverriderOpReplace:
			entries[key] = value
			b.changes = b.changes || !exists || before != any(value)
		case exists && o.Operator == policyv1alpha1.OverriderOpRemove:
			delete(entries, key)
			b.changes = true
		}
	}
	return nil
}

// overrideField edits a JSON or YAML document that a string field of the object holds, such as a file in a ConfigMap. It returns
// the path that failed.
func (b *budget) overrideField(object map[string]any, o policyv1alpha1.FieldOverrider) (string, error) {
	if o.FieldPath == "" {
		return "", errRoot
	}
	text, err := lookupText(object, o.FieldPath, "document")
	if err != nil {
		return o.FieldPath, err
	}
	var inJSON, inYAML []step
	for _, s := range o.JSON {
		inJSON = append(inJSON, step{s.SubPath, s.Operator, s.Value})
	}
	for _, s := range o.YAML {
		inYAML = append(inYAML, step{s.SubPath, s.Operator, s.Value})
	}
	for _, edit := range []func() (string, error){
		func() (subPath string, err error) {
			text, subPath, err = b.edit(text, parseJSON, inJSON)
			return subPath, err
		},
		func() (subPath string, err error) {
			text, subPath, err = b.edit(text, parseYAML, inYAML)
			return subPath, err
		},
	} {
		if subPath, err := edit(); err != nil {
			// The hash keeps the path in the document apart from the path in the object.
			return o.FieldPath + "#" + subPath, err
		}
	}
	b.changes = true
	_, err = operation{path: o.FieldPath, operator: policyv1alpha1.OverriderOpReplace, value: text}.run(b, object)
	return o.FieldPath, err
}

// step is an edit inside a document, in either notation.
type step struct {
	subPath  string
	operator policyv1alpha1.OverriderOperator
	value    apiextensionsv1.JSON
}

// document is a parsed text in either notation.
type document interface {
	// run makes one edit.
	run(b *budget, op operation) error
	// format returns the text.
	format() (string, error)
}

// edit makes steps in a document, which is parsed once for all of them. It returns the new text, or the path in the document that failed.
func (b *budget) edit(text string, parse func(*budget, string) (document, error), steps []step) (edited, subPath string, err error) {
	if len(steps) == 0 {
		return text, "", nil
	}
	parsed, err := parse(b, text)
	if err != nil {
		return "", steps[0].subPath, err
	}
	for _, s := range steps {
		op, err := b.newOperation(s.subPath, s.operator, s.value)
		if err == nil {
			err = parsed.run(b, op)
		}
		if err != nil {
			return "", s.subPath, err
		}
	}
	edited, err = parsed.format()
	return edited, steps[len(steps)-1].subPath, err
}

// jsonDocument keeps numbers as they are written: a document that is not ours must not lose digits.
type jsonDocument struct{ content any }

func parseJSON(b *budget, text string) (document, error) {
	if err := b.step(len(text)); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	parsed := &jsonDocument{}
	if err := decoder.Decode(&parsed.content); err != nil {
		return nil, fmt.Errorf("reading the JSON document: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the field holds more than one JSON document")
	}
	return parsed, nil
}

func (d *jsonDocument) run(b *budget, op operation) (err error) {
	d.content, err = op.run(b, d.content)
	return err
}

func (d *jsonDocument) format() (string, error) {
	var written limited
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d.content); err != nil {
		return "", fmt.Errorf("writing the JSON document: %w", err)
	}
	return strings.TrimSuffix(written.String(), "\n"), nil
}
