package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output is how a list is printed: as a table, or complete as JSON or YAML.
type Output struct{ format string }

var outputFormats = []string{"table", "json", "yaml"}

func (o *Output) Flags(c *cobra.Command) {
	c.Flags().StringVarP(&o.format, "output", "o", "table", "how to print: "+strings.Join(outputFormats, ", "))
}

func (o *Output) Check() error {
	if !slices.Contains(outputFormats, o.format) {
		return UsageErrorf("--output %q is none of %s", o.format, strings.Join(outputFormats, ", "))
	}
	return nil
}

// Print writes the items. Header and rows are for the table.
func (o *Output) Print(s Streams, items any, header string, rows [][]string) error {
	switch o.format {
	case "json":
		text, err := json.MarshalIndent(items, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the list: %w", err)
		}
		_, err = fmt.Fprintln(s.Out, string(text))
		return err
	case "yaml":
		text, err := yaml.Marshal(items)
		if err != nil {
			return fmt.Errorf("encoding the list: %w", err)
		}
		_, err = fmt.Fprint(s.Out, string(text))
		return err
	}
	w := tabwriter.NewWriter(s.Out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// OrNone is the text for an empty cell of a table.
func OrNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
