package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/speed"
)

// Result is one row of the table. Times are seconds; zero means not measured in this scenario.
type Result struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	Members int    `json:"members"`
	// InMembers is when every member had every object (or none any more), Applied when every Work said so (or was gone),
	// Status when every template carried the status of all members.
	InMembers float64 `json:"inMembersSeconds,omitempty"`
	Applied   float64 `json:"appliedSeconds,omitempty"`
	Status    float64 `json:"statusSeconds,omitempty"`
	// Latencies of single objects, from before the first request.
	MembersP50 float64 `json:"membersP50Seconds,omitempty"`
	MembersP95 float64 `json:"membersP95Seconds,omitempty"`
	StatusP50  float64 `json:"statusP50Seconds,omitempty"`
	StatusP95  float64 `json:"statusP95Seconds,omitempty"`
	// UserP50 and UserP95 are how long the writes of the bench took that began the work, which ten clients make at a time.
	UserP50 float64 `json:"userWriteP50Seconds,omitempty"`
	UserP95 float64 `json:"userWriteP95Seconds,omitempty"`
	// CPUPerObject is CPU seconds of the whole hub process, API server and storage included.
	CPUPerObject float64 `json:"cpuSecondsPerObject"`
	PeakRSS      int64   `json:"peakRSSBytes"`
	// FixedWork is the CPU time in seconds of a fixed piece of work beside the scenario, which shows how fast the machine was; see package speed.
	// Zero where that cannot be measured.
	FixedWork float64 `json:"fixedWorkSeconds,omitempty"`
	// WritesPerObject counts requests to the hub's API server that ask for a change, without the bench's own.
	WritesPerObject float64            `json:"writesPerObject"`
	Writes          map[string]float64 `json:"writes"`
	// Memory is measured in the scenario with very many Works only.
	Memory *Memory `json:"memoryBytes,omitempty"`
}

// Options choose what to measure.
type Options struct {
	// Binary is the flagship binary whose control plane and members are measured.
	Binary string
	// Wide adds the scenario with ten members, which takes ten API servers' worth of memory.
	Wide bool
	// Only names scenarios by their letters: a, b, c, d, e, x for the deletion, or claims, or f, for
	// ten thousand Works in one member, which takes some minutes. Those they build on run as well. Empty means all but f.
	Only []string
	// Timeout bounds one scenario.
	Timeout time.Duration
	// ProfileDir, if set, receives a CPU profile of the hub's first ten seconds in every scenario, and a heap profile taken
	// at its end.
	ProfileDir string
	// JSON receives the results as an array, when not nil; Out receives the tables, Log the progress.
	JSON, Out, Log io.Writer
}

const (
	manyDeployments = 200
	manyConfigMaps  = 1000
	wideDeployments = 100
	wideMembers     = 10
	samples         = 30
)

// Run measures every scenario and prints the results.
func Run(ctx context.Context, o Options) error {
	results, err := runNarrow(ctx, o)
	if err == nil && o.Wide && o.selects("e") {
		var wide Result
		if wide, err = runWide(ctx, o); err == nil {
			results = append(results, wide)
		}
	}
	if err == nil && slices.Contains(o.Only, "f") {
		var many Result
		if many, err = runMany(ctx, o); err == nil {
			results = append(results, many)
		}
	}
	var claims []ClaimResult
	if err == nil && o.selects("claims") {
		claims, err = runClaims(ctx, o)
	}
	return errors.Join(err, o.print(results, claims))
}

func (o Options) print(results []Result, claims []ClaimResult) error {
	printTable(o.Out, results)
	printMemory(o.Out, results)
	printClaims(o.Out, claims)
	if o.JSON == nil {
		return nil
	}
	enc := json.NewEncoder(o.JSON)
	enc.SetIndent("", "  ")
	return enc.Encode(slices.Concat(rows(results), rows(claims)))
}

func rows[T any](results []T) []any {
	out := make([]any, len(results))
	for i, r := range results {
		out[i] = r
	}
	return out
}

// scenario measures one kind of work.
type scenario struct {
	wanted bool
	run    func(context.Context) (Result, error)
}

// selects returns whether one of these scenarios is selected.
func (o Options) selects(letters ...string) bool {
	return len(o.Only) == 0 || slices.ContainsFunc(letters, func(l string) bool { return slices.Contains(o.Only, l) })
}

func runNarrow(ctx context.Context, o Options) ([]Result, error) {
	if !o.selects("a", "b", "c", "d", "x") {
		return nil, nil
	}
	return onFleet(ctx, o, 2, func(s *Stand) []scenario {
		return []scenario{
			{o.selects("a", "c", "x"), func(ctx context.Context) (Result, error) {
				return s.deployments(ctx, fmt.Sprintf("(a) %d Deployments, a policy each", manyDeployments), manyDeployments)
			}},
			{o.selects("c"), func(ctx context.Context) (Result, error) { return s.change(ctx, manyDeployments) }},
			{o.selects("d"), func(ctx context.Context) (Result, error) { return s.latency(ctx, samples) }},
			{o.selects("x"), func(ctx context.Context) (Result, error) { return s.deletion(ctx, manyDeployments) }},
			{o.selects("b"), func(ctx context.Context) (Result, error) { return s.configMaps(ctx, manyConfigMaps) }},
		}
	})
}

func runWide(ctx context.Context, o Options) (Result, error) {
	results, err := onFleet(ctx, o, wideMembers, func(s *Stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (Result, error) {
			return s.deployments(ctx, fmt.Sprintf("(e) %d Deployments to %d members", wideDeployments, wideMembers), wideDeployments)
		}}}
	})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// onFleet starts a fleet, runs scenarios on it one after the other and ends it.
func onFleet(ctx context.Context, o Options, members int, scenarios func(*Stand) []scenario) (_ []Result, err error) {
	fmt.Fprintf(o.Log, "Starting a hub and %d members\n", members)
	f, err := fleet.Start(ctx, o.Binary, members, o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	s, err := newStand(ctx, f)
	defer s.close()
	if err != nil {
		return nil, err
	}
	var results []Result
	for i, scenario := range scenarios(s) {
		if !scenario.wanted {
			continue
		}
		profiled := s.Top.Profile(ctx, o.ProfileDir, len(s.far), i)
		fixedWork := speed.Measure()
		timed, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done within %s", o.Timeout))
		r, err := scenario.run(timed)
		cancel()
		r.FixedWork = fixedWork().Seconds()
		if err := errors.Join(err, profiled()); err != nil {
			return results, err
		}
		fmt.Fprintf(o.Log, "  %s: done\n", r.Name)
		results = append(results, r)
	}
	return results, nil
}

func printTable(out io.Writer, results []Result) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tMEMBERS\tWORKS\tSTATUS\tUSER WRITE\tCPU/OBJ\tWRITES/OBJ\tPEAK RSS\tFIXED WORK")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.0f ms\t%.1f\t%d MB\t%.2f ms\n", r.Name,
			times(r.InMembers, r.MembersP50, r.MembersP95), times(r.Applied, 0, 0), times(r.Status, r.StatusP50, r.StatusP95), times(0, r.UserP50, r.UserP95),
			r.CPUPerObject*1000, r.WritesPerObject, r.PeakRSS/1e6, r.FixedWork*1000)
	}
	_ = w.Flush()
	for _, r := range results {
		fmt.Fprintf(out, "\nWrites per object, %s (the bench's own included):\n", r.Name)
		counted := fleet.Writes(r.Writes)
		for _, k := range counted.Rows() {
			fmt.Fprintf(out, "  %7.2f  %s\n", counted[k], k)
		}
	}
}

// times prints a duration in seconds, or a median with the 95th percentile in milliseconds.
func times(whole, p50, p95 float64) string {
	switch {
	case p50 > 0:
		return fmt.Sprintf("p50 %.0f ms, p95 %.0f ms", p50*1000, p95*1000)
	case whole > 0:
		return fmt.Sprintf("%.1f s", whole)
	}
	return "-"
}
