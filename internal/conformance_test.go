package internal_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// mostListed is how many specs test/conformance/listed.yaml has. It is lowered with the list, and never raised.
const mostListed = 78

// TestTheListOfSpecsOnlyShrinks: the specs of Kubernetes that cannot pass become fewer, and docs/conformance.md has their numbers.
func TestTheListOfSpecsOnlyShrinks(t *testing.T) {
	text, err := os.ReadFile("../test/conformance/listed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Specs []string `json:"specs"`
	}
	if err := yaml.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	var listed int
	var counts []int
	for _, group := range groups {
		listed += len(group.Specs)
		counts = append(counts, len(group.Specs))
	}
	switch {
	case listed > mostListed:
		t.Errorf("test/conformance/listed.yaml has %d specs, and only shrinks from %d: make the new ones pass", listed, mostListed)
	case listed < mostListed:
		t.Errorf("test/conformance/listed.yaml has %d specs: lower mostListed to that", listed)
	}

	page, err := os.ReadFile("../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../test/conformance/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`k8s\.io/kubernetes v(\S+)`).FindSubmatch(module)
	if version == nil {
		t.Fatal("test/conformance/go.mod requires no Kubernetes")
	}
	for _, difference := range differencesOfPage(string(page), string(version[1]), counts) {
		t.Errorf("docs/conformance.md: %s", difference)
	}
}

var (
	totalRow  = regexp.MustCompile(`(?m)^\| (\d+\.\d+\.\d+) \| (\d+) \| (\d+) \| (\d+) \|$`)
	reasonRow = regexp.MustCompile(`(?m)^\| [^|]*[a-z][^|]* \| (\d+) \|$`)
)

// differencesOfPage compares the tables about Kubernetes' tests with its version and with how many specs are listed for each reason.
func differencesOfPage(page, version string, counts []int) (differences []string) {
	_, section, _ := strings.Cut(page, "\n## Kubernetes' tests of API machinery\n")
	section, _, _ = strings.Cut(section, "\n## ")
	total := totalRow.FindStringSubmatch(section)
	if total == nil {
		return []string{"it has no row with a version and three numbers"}
	}
	number := func(text string) int {
		n, _ := strconv.Atoi(text) // the expression has digits only
		return n
	}
	listed := 0
	for _, count := range counts {
		listed += count
	}
	if total[1] != version {
		differences = append(differences, fmt.Sprintf("the specs are those of %s, and Kubernetes %s is tested", total[1], version))
	}
	if specs, pass, shown := number(total[2]), number(total[3]), number(total[4]); shown != listed || pass+shown != specs {
		differences = append(differences, fmt.Sprintf("of %d specs %d pass and %d are listed, and listed.yaml has %d", specs, pass, shown, listed))
	}
	var shown []int
	for _, row := range reasonRow.FindAllStringSubmatch(section, -1) {
		shown = append(shown, number(row[1]))
	}
	if slices.Sort(shown); !slices.Equal(shown, slices.Sorted(slices.Values(counts))) {
		differences = append(differences, fmt.Sprintf("the reasons have %v specs, and listed.yaml has %v", shown, counts))
	}
	return differences
}

func TestDifferencesOfThePageAreFound(t *testing.T) {
	const page = `
## Kubernetes' tests of API machinery

| Kubernetes | specs | pass | listed |
|---|---|---|---|
| 1.2.3 | 9 | 6 | 3 |

| reason | specs |
|---|---|
| no pods | 2 |
| no nodes | 1 |

## Others

| other | 7 |
`
	for name, tc := range map[string]struct {
		page, version string
		counts        []int
		want          int
	}{
		"none":                 {page, "1.2.3", []int{1, 2}, 0},
		"another version":      {page, "1.2.4", []int{2, 1}, 1},
		"one spec more":        {page, "1.2.3", []int{2, 2}, 2},
		"another reason":       {page, "1.2.3", []int{1, 1, 1}, 1},
		"the sum is another":   {strings.Replace(page, "| 9 |", "| 8 |", 1), "1.2.3", []int{2, 1}, 1},
		"the table is missing": {strings.Replace(page, "| 1.2.3 ", "| newest ", 1), "1.2.3", []int{2, 1}, 1},
	} {
		if got := differencesOfPage(tc.page, tc.version, tc.counts); len(got) != tc.want {
			t.Errorf("%s: %d differences, want %d: %q", name, len(got), tc.want, got)
		}
	}
}
