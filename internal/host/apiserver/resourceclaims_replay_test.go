package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// exchange is one recorded request and what to keep of its answer.
type exchange struct {
	Method      string              `json:"method"`
	Path        string              `json:"path"`
	ContentType *string             `json:"contentType"`
	Accept      string              `json:"accept"`
	Auth        string              `json:"auth"`
	Body        any                 `json:"body"`
	BodyText    *string             `json:"bodyText"`
	BodyBase64  *string             `json:"bodyBase64"`
	Capture     map[string]string   `json:"capture"`
	Pick        []string            `json:"pick"`
	DropKeys    []string            `json:"dropKeys"`
	Keep        map[string][]string `json:"keep"`
	Poll        *struct {
		Status  int     `json:"status"`
		Seconds float64 `json:"seconds"`
	} `json:"poll"`
}

// recordedCase is a request under test with what happens before and after it.
type recordedCase struct {
	exchange
	ID       string     `json:"id"`
	Note     string     `json:"note"`
	Tags     []string   `json:"tags"`
	Setup    []exchange `json:"setup"`
	Then     []exchange `json:"then"`
	Tolerate []int      `json:"tolerate"`
}

// recordedAnswers are what the recorded server said to a case.
type recordedAnswers struct {
	ID        string           `json:"id"`
	Setup     []int            `json:"setup"`
	Responses []map[string]any `json:"responses"`
}

// TestResourceClaimsAnswerAsRecorded compares the API with the answers of a kube-apiserver 1.30 in testdata/resourceclaims. If
// FLAGSHIP_REPLAY_DIR names the folder of the script that recorded them, which is not part of this repository, it runs that too.
func TestResourceClaimsAnswerAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("replays some two hundred cases")
	}
	t.Run("script", replayByScript)
	answers := map[string]recordedAnswers{}
	readLines(t, "golden.jsonl", func(answer recordedAnswers) { answers[answer.ID] = answer })
	readLines(t, "cases.jsonl", func(recorded recordedCase) {
		t.Run(recorded.ID, func(t *testing.T) {
			t.Parallel()
			want, ok := answers[recorded.ID]
			if !ok {
				t.Fatal("no answer was recorded")
			}
			if problem := newReplay(t, recorded.ID).run(t, recorded, want); problem != "" {
				t.Errorf("%s: recorded (-), served (+):\n%s", recorded.Note, problem)
			}
		})
	})
}

// replayDir is the environment variable with the folder of the recorder, replay.py, and its cases.
const replayDir = "FLAGSHIP_REPLAY_DIR"

func replayByScript(t *testing.T) {
	dir := os.Getenv(replayDir)
	python, err := exec.LookPath("python3")
	if dir == "" || err != nil {
		t.Skipf("needs %s and python3", replayDir)
	}
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, hub.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := func(t *testing.T, level string) []string {
		t.Helper()
		script := exec.CommandContext(t.Context(), python, filepath.Join(dir, "replay.py"), "--url", hub.URL(), "--ca", authority,
			"--token", hub.LoopbackConfig().BearerToken, "--skip-tag", "server-config", "--level", level, "-q", filepath.Join(dir, "open"))
		output, err := script.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("%v\n%s", err, output)
		}
		counts := regexp.MustCompile(`(?m)^(\d+) passed, (\d+) failed$`).FindSubmatch(output)
		var ids []string
		for _, line := range regexp.MustCompile(`(?m)^FAIL (\S+)`).FindAllSubmatch(output, -1) {
			ids = append(ids, string(line[1]))
		}
		if counts == nil || string(counts[1]) == "0" || string(counts[2]) != strconv.Itoa(len(ids)) {
			t.Fatalf("the script does not say how many cases passed:\n%s", output)
		}
		if level == "contract" && len(ids) > 0 {
			t.Errorf("cases fail:\n%s", output)
		}
		slices.Sort(ids)
		return ids
	}
	t.Run("contract", func(t *testing.T) { failed(t, "contract") })
	t.Run("strict", func(t *testing.T) {
		if diff := cmp.Diff(documentedDifferences(t), failed(t, "strict")); diff != "" {
			t.Errorf("documented (-), seen (+):\n%s", diff)
		}
	})
}

// documentedDifferences are the cases that docs/resourceclaims.md lists as not equal to the letter.
func documentedDifferences(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "resourceclaims.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| cases | difference | reason |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table of differences")
	}
	var ids []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, id := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			ids = append(ids, id[1])
		}
	}
	slices.Sort(ids)
	return ids
}

func readLines[T any](t *testing.T, name string, use func(T)) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "resourceclaims", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var value T
		if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
			t.Fatal(err)
		}
		use(value)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// replay sends the requests of one case.
type replay struct {
	client   *http.Client
	values   map[string]string // what {{name}} stands for
	captured map[string]string
}

const plainUser = "dra-alice"

func newReplay(t *testing.T, id string) *replay {
	t.Helper()
	config := &rest.Config{Host: hub.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &replay{client: client, captured: map[string]string{}, values: map[string]string{
		"ns": namespace(t), "user": plainUser, "id": id,
	}}
}

// run replays a case and returns how the answers differ.
func (r *replay) run(t *testing.T, recorded recordedCase, want recordedAnswers) string {
	t.Helper()
	var setup []int
	for _, request := range recorded.Setup {
		status, _ := r.answer(t, request)
		setup = append(setup, status)
	}
	if diff := cmp.Diff(append([]int{}, want.Setup...), append([]int{}, setup...)); diff != "" {
		return "status codes of the setup: " + diff
	}
	var problems []string
	for i, request := range append([]exchange{recorded.exchange}, recorded.Then...) {
		status, got := r.answer(t, request)
		if i == 0 && tolerated(recorded.Tolerate, status) {
			continue
		}
		if diff := cmp.Diff(contractOf(want.Responses[i]), contractOf(got)); diff != "" {
			problems = append(problems, fmt.Sprintf("answer %d: %s", i, diff))
		}
	}
	return strings.Join(problems, "\n")
}

func tolerated(statuses []int, status int) bool {
	for _, allowed := range statuses {
		if status == allowed {
			return true
		}
	}
	return false
}

// answer sends a request, again and again if it says so, and records the answer in the form of the recording.
func (r *replay) answer(t *testing.T, request exchange) (int, map[string]any) {
	t.Helper()
	ctx := t.Context()
	if request.Poll != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(request.Poll.Seconds*float64(time.Second)))
		defer cancel()
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := r.send(ctx, request)
		if err != nil {
			t.Fatalf("%s %s: %v", request.Method, request.Path, err)
		}
		if request.Poll == nil || got.status == request.Poll.Status {
			return got.status, r.record(got, request)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return got.status, r.record(got, request)
		}
	}
}

// received is an answer as it came.
type received struct {
	status int
	header http.Header
	body   []byte
}

func (r *replay) send(ctx context.Context, request exchange) (received, error) {
	body, err := r.body(request)
	if err != nil {
		return received{}, err
	}
	outgoing, err := http.NewRequestWithContext(ctx, request.Method, hub.URL()+r.fill(request.Path), bytes.NewReader(body))
	if err != nil {
		return received{}, err
	}
	outgoing.Header.Set("User-Agent", "dra-replay")
	outgoing.Header.Set("Accept", "application/json")
	if request.Accept != "" {
		outgoing.Header.Set("Accept", request.Accept)
	}
	if body != nil {
		outgoing.Header.Set("Content-Type", "application/json")
		if request.ContentType != nil {
			outgoing.Header.Set("Content-Type", *request.ContentType)
		}
	}
	switch request.Auth {
	case "", "admin":
		outgoing.Header.Set("Authorization", "Bearer "+hub.LoopbackConfig().BearerToken)
	case "user":
		outgoing.Header.Set("Authorization", "Bearer "+hub.LoopbackConfig().BearerToken)
		outgoing.Header.Set("Impersonate-User", plainUser)
	case "bad":
		outgoing.Header.Set("Authorization", "Bearer not-a-valid-token")
	}
	response, err := r.client.Do(outgoing)
	if err != nil {
		return received{}, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	return received{response.StatusCode, response.Header, data}, err
}

func (r *replay) body(request exchange) ([]byte, error) {
	switch {
	case request.Body != nil:
		return json.Marshal(r.expand(request.Body))
	case request.BodyText != nil:
		return []byte(r.fill(*request.BodyText)), nil
	case request.BodyBase64 != nil:
		return base64.StdEncoding.DecodeString(*request.BodyBase64)
	}
	return nil, nil
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

func (r *replay) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := r.values[strings.Trim(found, "{}")]; ok {
			return value
		}
		return found
	})
}

// expand fills in placeholders and builds long values.
func (r *replay) expand(value any) any {
	switch value := value.(type) {
	case string:
		return r.fill(value)
	case []any:
		expanded := []any{}
		for _, element := range value {
			expanded = append(expanded, r.expand(element))
		}
		return expanded
	case map[string]any:
		if repeat, ok := value["$repeat"].([]any); ok {
			return strings.Repeat(repeat[0].(string), int(repeat[1].(float64)))
		}
		if sequence, ok := value["$seq"].(map[string]any); ok {
			return r.sequence(sequence)
		}
		expanded := map[string]any{}
		for key, element := range value {
			expanded[r.fill(key)] = r.expand(element)
		}
		return expanded
	}
	return value
}

func (r *replay) sequence(sequence map[string]any) []any {
	defer delete(r.values, "i")
	var made []any
	for i := range int(sequence["count"].(float64)) {
		r.values["i"] = fmt.Sprint(i)
		made = append(made, r.expand(sequence["item"]))
	}
	return made
}

// record brings an answer into the form of the recording and keeps what later requests need of it.
func (r *replay) record(got received, request exchange) map[string]any {
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	record := map[string]any{"status": float64(got.status), "contentType": strings.TrimSpace(media)}
	document, err := r.decode(got, request, record)
	if err != nil && !errors.Is(err, errNotADocument) {
		record["undecodable"] = err.Error()
	}
	masks := &masks{captured: r.captured, namespace: r.values["ns"]}
	if warnings := got.header.Values("Warning"); len(warnings) > 0 {
		record["warnings"] = masks.texts(warnings)
	}
	if document == nil {
		text := masks.text(string(got.body))
		if media == "application/yaml" {
			text = regexp.MustCompile(`resourceVersion: "\d+"`).ReplaceAllString(text, `resourceVersion: "<rv>"`)
			text = strings.ReplaceAll(text, `"<time>"`, "<time>")
		}
		record["body"] = text
		return record
	}
	for name, path := range request.Capture {
		if found, ok := dig(document, strings.Split(path, ".")).(string); ok {
			r.captured[name], r.values[name] = found, found
		}
	}
	record["body"] = masks.value("", cut(document, request))
	return record
}

var errNotADocument = errors.New("neither JSON nor protobuf")

func (r *replay) decode(got received, request exchange, record map[string]any) (any, error) {
	switch record["contentType"] {
	case "application/vnd.kubernetes.protobuf":
		return decodeProtobuf(got.body)
	case "application/json":
	default:
		return nil, errNotADocument
	}
	var stream []any
	decoder := json.NewDecoder(bytes.NewReader(got.body))
	for {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		stream = append(stream, document)
	}
	if len(stream) == 1 {
		event, _ := stream[0].(map[string]any)
		if event["type"] == nil || event["object"] == nil || !strings.Contains(request.Path, "watch") {
			record["indented"] = bytes.HasPrefix(got.body, []byte("{\n"))
			return stream[0], nil
		}
	}
	record["stream"] = true
	return stream, nil
}
