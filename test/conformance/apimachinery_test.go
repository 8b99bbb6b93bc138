package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	"k8s.io/kubernetes/test/e2e/framework"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"sigs.k8s.io/yaml"
)

const (
	suite  = "API machinery"
	prefix = "[sig-api-machinery] "
	// Specs that need pods wait for them for minutes; a listed one has to pass within listedLimit to be one that passes.
	listedLimit = time.Minute
	// The spec of lists that go on after a compaction waits for two compactions, ten minutes, and creates 400 objects before.
	specLimit = 15 * time.Minute
	// graceLimit is how long a spec may take to clean up after its limit.
	graceLimit = 10 * time.Second
)

//go:embed listed.yaml
var listedFile []byte

// readListed returns the listed specs with their reasons.
func readListed(t *testing.T) map[string]string {
	var groups []struct {
		Reason string   `json:"reason"`
		Specs  []string `json:"specs"`
	}
	if err := yaml.UnmarshalStrict(listedFile, &groups); err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, group := range groups {
		for _, spec := range group.Specs {
			if listed[spec] != "" || group.Reason == "" {
				t.Errorf("%q is listed twice or without a reason", spec)
			}
			listed[spec] = group.Reason
		}
	}
	return listed
}

// TestAPIMachinery runs each spec in a process of its own, so that one that panics or waits ends alone.
func TestAPIMachinery(t *testing.T) {
	listed := readListed(t)
	specs, output := ginkgoProcess(t, listedLimit, "-ginkgo.dry-run")
	specs = slices.DeleteFunc(specs, func(spec types.SpecReport) bool { // packages that are linked too have specs of their own
		return !strings.HasPrefix(spec.FullText(), prefix)
	})
	if len(specs) == 0 {
		t.Fatal(output)
	}
	for spec := range listed {
		if !slices.ContainsFunc(specs, func(report types.SpecReport) bool { return report.FullText() == spec }) {
			t.Errorf("%q is listed and does not exist", spec)
		}
	}
	var counts table
	t.Cleanup(func() { fmt.Print(counts.String()) })
	for _, spec := range specs {
		text := spec.FullText()
		t.Run(text, func(t *testing.T) {
			if !strings.Contains(text, "[Serial]") && !strings.Contains(text, "[Disruptive]") {
				t.Parallel()
			}
			reason := listed[text]
			state, output := runSpec(t, text, reason != "")
			counts.add(strings.TrimPrefix(spec.ContainerHierarchyTexts[0], prefix), state == types.SpecStatePassed, reason != "")
			switch {
			case state == types.SpecStatePassed && reason != "":
				t.Error("the spec passes: remove it from listed.yaml")
			case state != types.SpecStatePassed && reason == "":
				t.Errorf("%s\n%s", state, output)
			case state != types.SpecStatePassed:
				t.Logf("%s, listed: %s", state, reason)
			}
		})
	}
}

// runSpec runs one spec and returns its state.
func runSpec(t *testing.T, spec string, isListed bool) (types.SpecState, string) {
	limit := specLimit
	if isListed {
		limit = listedLimit
	}
	results, output := ginkgoProcess(t, limit, "-ginkgo.focus="+regexp.QuoteMeta(spec)+"$")
	for _, result := range results {
		if result.FullText() == spec {
			return result.State, output
		}
	}
	return types.SpecStatePanicked, output
}

// ginkgoProcess starts this binary for TestGinkgo and returns what it reports about each spec.
func ginkgoProcess(t *testing.T, limit time.Duration, args ...string) (types.SpecReports, string) {
	report := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithTimeout(t.Context(), limit+6*graceLimit)
	defer cancel()
	args = append(args, "-test.run=^TestGinkgo$", "-test.timeout=0", "-ginkgo.no-color", "-ginkgo.json-report="+report,
		"-ginkgo.timeout="+limit.String(), "-ginkgo.grace-period="+graceLimit.String())
	process := exec.CommandContext(ctx, os.Args[0], args...)
	process.Env = append(os.Environ(), kubeconfigVar+"="+filepath.Join(hub, "hub.kubeconfig"), "KUBECACHEDIR="+t.TempDir())
	output, err := process.CombinedOutput()
	data, readErr := os.ReadFile(report)
	if readErr != nil {
		return nil, fmt.Sprintf("%v\n%s", err, output)
	}
	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		t.Fatal(err)
	}
	var specs types.SpecReports
	for _, report := range reports {
		specs = append(specs, report.SpecReports.WithLeafNodeType(types.NodeTypeIt)...)
	}
	return specs, string(output)
}

// TestGinkgo runs specs in a process that TestAPIMachinery starts.
func TestGinkgo(t *testing.T) {
	if os.Getenv(kubeconfigVar) == "" {
		t.Skip("TestAPIMachinery starts it")
	}
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	suiteConfig.SkipStrings = nil
	ginkgo.RunSpecs(t, suite, suiteConfig, reporterConfig)
}

// table counts results for each subject.
type table struct {
	mutex sync.Mutex
	rows  map[string][3]int
}

func (r *table) add(subject string, passed, isListed bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.rows == nil {
		r.rows = map[string][3]int{}
	}
	row := r.rows[subject]
	switch {
	case passed:
		row[0]++
	case isListed:
		row[2]++
	default:
		row[1]++
	}
	r.rows[subject] = row
}

func (r *table) String() string {
	var text strings.Builder
	line := func(subject string, row [3]int) {
		fmt.Fprintf(&text, "%-72s %6d %6d %6d\n", subject, row[0], row[1], row[2])
	}
	fmt.Fprintf(&text, "%-72s %6s %6s %6s\n", suite, "passed", "failed", "listed")
	var total [3]int
	subjects := make([]string, 0, len(r.rows))
	for subject := range r.rows {
		subjects = append(subjects, subject)
	}
	slices.Sort(subjects)
	for _, subject := range subjects {
		row := r.rows[subject]
		line(subject, row)
		for i := range row {
			total[i] += row[i]
		}
	}
	line("all", total)
	return text.String()
}
