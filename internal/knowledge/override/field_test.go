package override

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest/bounded"
)

// FuzzEditDocuments looks for panics, and for edits that report success without an effect that can be read back.
func FuzzEditDocuments(f *testing.F) {
	f.Add(`{"a": [1, {"b": 2}]}`, "/a/1/b", "replace")
	f.Add("a:\n- b: &x 1\n- *x\n# end", "/a/-", "add")
	f.Add("", "/a", "add")
	f.Add("? [a]\n: b", "/", "remove")
	f.Add("a: &a "+strings.Repeat("x", 40_000)+"\nb: ["+strings.Repeat("*a, ", 8_000)+"*a]\n", "/b", "replace")
	f.Add("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "/c", "replace")
	f.Fuzz(func(t *testing.T, text, path, operator string) {
		op := operation{path: path, operator: policyv1alpha1.OverriderOperator(operator), value: "new"}
		switch op.operator {
		case policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpReplace, policyv1alpha1.OverriderOpRemove:
		default:
			return
		}
		for _, parse := range []func(*budget, string) (document, error){parseJSON, parseYAML} {
			edit := func(text string, op operation) (string, error) {
				parsed, err := parse(newBudget(), text)
				if err == nil {
					err = parsed.run(newBudget(), op)
				}
				if err != nil {
					return "", err
				}
				return parsed.format()
			}
			var edited string
			var err error
			bounded.Run(t, func() { edited, err = edit(text, op) })
			if err != nil || op.operator != policyv1alpha1.OverriderOpReplace {
				continue
			}
			if again, err := edit(edited, op); err != nil || again != edited {
				t.Errorf("replacing %q in %q gave %q, and once more gave %q, %v", path, text, edited, again, err)
			}
		}
	})
}
