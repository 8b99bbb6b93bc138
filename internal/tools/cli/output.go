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

// IsTable returns whether a table is printed.
func (o *Output) IsTable() bool { return o.format == "table" }

// Print writes the items. Header and rows are for the table.
func (o *Output) Print(s Streams, items any, header string, rows [][]string) error {
	return PrintAs(s, o.format, items, func() string {
		var table strings.Builder
		w := tabwriter.NewWriter(&table, 0, 8, 3, ' ', 0)
		fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
		for _, row := range rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = Printable(cell)
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		_ = w.Flush() // a strings.Builder takes everything
		return table.String()
	})
}

// PrintText is like Print, for what is no table of columns.
func (o *Output) PrintText(s Streams, answer any, text func() string) error {
	return PrintAs(s, o.format, answer, text)
}

// PrintAs writes an answer as JSON or YAML; in any other format the text is what is written.
func PrintAs(s Streams, format string, answer any, text func() string) error {
	var out string
	switch format {
	case "json":
		raw, err := json.MarshalIndent(answer, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the answer: %w", err)
		}
		out = string(raw) + "\n"
	case "yaml":
		raw, err := yaml.Marshal(answer)
		if err != nil {
			return fmt.Errorf("encoding the answer: %w", err)
		}
		out = string(raw)
	default:
		out = text()
	}
	_, err := fmt.Fprint(s.Out, out)
	return err
}

// OrNone is the text for an empty cell of a table.
func OrNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
