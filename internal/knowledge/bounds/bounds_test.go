package bounds

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestTheTableIsThatOfTheDocumentation also checks that each row names a test that there is.
func TestTheTableIsThatOfTheDocumentation(t *testing.T) {
	const root = "../../../"
	page, err := os.ReadFile(root + "docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), Markdown()) {
		t.Errorf("docs/security.md has another table of bounds than this one:\n%s", Markdown())
	}
	sent := map[string]bool{}
	for _, row := range Rows() {
		if row.Party == "" || row.Sends == "" || row.bound() == "" || row.Beyond == "" || sent[row.Party+row.Sends] {
			t.Errorf("%q of %q is incomplete, or there twice", row.Sends, row.Party)
		}
		sent[row.Party+row.Sends] = true
		folder, name, _ := strings.Cut(row.Test, " ")
		files, err := filepath.Glob(root + folder + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || name != "" && strings.Contains(string(content), "\nfunc "+name+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s: there is no test %s in %s", row.Sends, name, folder)
		}
	}
}

var small = Limit{"the answer", 100, 10}

// events are those of a watch in protobuf.
func events(sizes ...int) string {
	var b bytes.Buffer
	for _, n := range sizes {
		_ = binary.Write(&b, binary.BigEndian, uint32(n))
		b.WriteString(strings.Repeat("x", n))
	}
	return b.String()
}

// TestAMeter reads documents at once and byte by byte.
func TestAMeter(t *testing.T) {
	for name, c := range map[string]struct {
		text   string
		framed bool
		fits   bool
	}{
		"a document":                     {`{"a":[1,2,3],"b":"c"}`, false, true},
		"too many bytes":                 {`{"a":"` + strings.Repeat("x", 100) + `"}`, false, false},
		"too many values":                {`{"a":[{},{},{},{},{},{}]}`, false, false},
		"no values in a text":            {`{"a":"{[,:,:,:,:,\",{{{{"}`, false, true},
		"blanks before it":               {"\n \t{}", false, true},
		"text":                           {strings.Repeat("x", 100), false, true},
		"more text":                      {strings.Repeat("x", 101), false, false},
		"many documents":                 {strings.Repeat(`{"a":[1,2,3]}`+"\n", 100), true, true},
		"many documents are not one":     {strings.Repeat(`{"a":[1,2,3]}`+"\n", 100), false, false},
		"one of many has too many bytes": {`{"a":1}{"a":"` + strings.Repeat("x", 100) + `"}`, true, false},
		"one of many has too many":       {`{"a":1}{"a":[{},{},{},{},{},{}]}`, true, false},
		"events":                         {events(3, 100, 0, 100, 7), true, true},
		"an event that is too large":     {events(3, 101), true, false},
		"an event that would be":         {"\x7f\xff\xff\xff", true, false},
	} {
		for way, from := range map[string]io.Reader{"whole": strings.NewReader(c.text), "bytes": iotest.OneByteReader(strings.NewReader(c.text))} {
			got, err := io.ReadAll(NewMeter(t.Context(), from, small, nil, c.framed))
			if c.fits && (err != nil || string(got) != c.text) || !c.fits && !IsTooMuch(err) {
				t.Errorf("%s, %s: %d of %d bytes, %v", name, way, len(got), len(c.text), err)
			}
		}
	}
}

// TestAFloodWaits: what is read at once is bounded, and events count more than their bytes.
func TestAFloodWaits(t *testing.T) {
	for name, from := range map[string]string{"bytes": `{"a":"` + strings.Repeat("x", 1<<20), "events": strings.Repeat("{}", 1<<10)} {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		read, limited := int64(0), NewRate()
		limited.limiter.SetLimit(1e-3) // nothing comes to what may be read at once within the time that this has
		endless := NewMeter(ctx, &repeated{text: from}, Limit{"all", 1 << 40, 1 << 40}, limited, true)
		for buffer := make([]byte, 32<<10); ; {
			n, err := endless.Read(buffer)
			if read += int64(n); err != nil {
				break // waiting would take longer than the context lasts
			}
		}
		cancel()
		want := int64(BytesAtOnce)
		if name == "events" {
			want /= 1 + pieceCost/2
		}
		if read > want || read < want/2 {
			t.Errorf("%s: %d bytes are read at once, want about %d", name, read, want)
		}
	}
}

// repeated is a text without end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		copied := copy(p[n:], r.text[r.at:])
		n, r.at = n+copied, (r.at+copied)%len(r.text)
	}
	return n, nil
}

// TestValues counts those of documents in memory.
func TestValues(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = make([]corev1.Container, 3)
	honest, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	flood := []byte{0x12, 0x80, 0x20} // the field 2 with 4096 bytes: a spec
	flood = append(flood, bytes.Repeat([]byte{0x12, 0}, 2048)...)
	limit := Limit{"the answer", 1 << 20, 1000}
	for name, c := range map[string]struct {
		document []byte
		fits     bool
	}{
		"JSON":                  {[]byte(`{"a":[1,2,3]}`), true},
		"JSON of empty objects": {[]byte(`{"a":[` + strings.Repeat("{},", 1000) + `{}]}`), false},
		"a pod":                 {honest, true},
		"a pod with a prefix":   {append([]byte("k8s\x00"), honest...), true},
		"empty containers":      {flood, false},
		"with a prefix":         {append([]byte("k8s\x00"), flood...), false},
		"empty items":           {bytes.Repeat([]byte{0x12, 0}, 2048), false},
		"a text":                {append([]byte{0x0a, 0x80, 0x20}, bytes.Repeat([]byte("ab"), 2048)...), true},
		"nothing":               {nil, true},
		"noise":                 {bytes.Repeat([]byte{0xff}, 5000), true},
	} {
		if err := Values(c.document, limit); c.fits != (err == nil) || err != nil && !IsTooMuch(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,3]}`), true)
	f.Add(bytes.Repeat([]byte{0x12, 2, 0x12, 0}, 100), false)
	f.Fuzz(func(t *testing.T, document []byte, framed bool) {
		_ = Values(document, small)
		whole, first := io.ReadAll(NewMeter(t.Context(), bytes.NewReader(document), small, nil, framed))
		parts, second := io.ReadAll(NewMeter(t.Context(), iotest.HalfReader(bytes.NewReader(document)), small, nil, framed))
		if (first == nil) != (second == nil) || first == nil && !bytes.Equal(whole, parts) {
			t.Errorf("%d bytes and %v at once, %d bytes and %v in parts", len(whole), first, len(parts), second)
		}
	})
}

func TestAnAccount(t *testing.T) {
	accounts, changes := NewAccounts(), 0
	accounts.OnChange(func() { changes++ })
	row := Row{Sends: "things", Kept: Amount{2, 100}}
	account := accounts.Of(row, nil)
	if accounts.Of(row, nil) != account {
		t.Error("two watches of a row have two accounts")
	}
	account.Add(Amount{2, 90})
	for _, c := range []struct {
		added, replaced Amount
		fits            bool
	}{
		{Amount{}, Amount{}, true}, {Amount{1, 1}, Amount{}, false}, {Amount{0, 11}, Amount{}, false}, {Amount{2, 99}, Amount{2, 90}, true},
	} {
		if err := account.Check(c.added, c.replaced); c.fits == IsTooMuch(err) {
			t.Errorf("with %v in place of %v: %v", c.added, c.replaced, err)
		}
	}
	full := account.Check(Amount{1, 1}, Amount{})
	accounts.Note("a", full)
	accounts.Note("a", full)
	accounts.Note("b", errors.New("another failure"))
	if got := Texts(accounts.Excess()); changes != 1 || len(got) != 1 || !strings.HasPrefix(got[0], "a: the cluster has too much of things") {
		t.Errorf("%d changes, %q", changes, got)
	}
	accounts.Note("a", nil)
	accounts.Note("a", nil)
	if got := accounts.Excess(); changes != 2 || len(got) != 0 {
		t.Errorf("%d changes, %q", changes, got)
	}
	refusal := OfRecord(fmt.Errorf("creating Work a: %w", errors.New("works \"a\" is forbidden: "+TooManyRecords("7 records").Error())))
	for _, c := range []struct {
		object string
		err    error
		excess int
	}{{"a", refusal, 1}, {"b", refusal, 1}, {"a", nil, 1}, {"b", errors.New("another failure"), 1}, {"b", nil, 0}, {"c", nil, 0}} {
		accounts.NoteObject("records", c.object, c.err)
		if got := accounts.Excess(); len(got) != c.excess {
			t.Errorf("after %s with %v: %q", c.object, c.err, got)
		}
	}
	if err := OfRecord(io.EOF); err != io.EOF || OfRecord(nil) != nil || !IsTooMuch(refusal) {
		t.Errorf("another error becomes %v", err)
	}
	(*Accounts)(nil).NoteObject("records", "a", refusal)
	(*Account)(nil).Add(Amount{1, 1})
	(*Accounts)(nil).Note("a", full)
	if err := (*Account)(nil).Check(Amount{1, 1}, Amount{}); err != nil {
		t.Error(err)
	}
}

func TestTextsAreCut(t *testing.T) {
	long := strings.Repeat("ä", MessageBytes)
	if got := Message(long); len(got) > MessageBytes || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending with %q", len(got), got[len(got)-6:])
	}
	for text, want := range map[string]string{"short": "short", "éééééééé": "éé…", "12345678": "12345678", "123456789": "12345…"} {
		if got := Cut(text, 8); got != want {
			t.Errorf("%s becomes %q, want %q", text, got, want)
		}
	}
	for _, most := range []int{0, 1, 3} {
		if got := Cut("12345678", most); got != "" {
			t.Errorf("of %d bytes %q is left", most, got)
		}
	}
	cause := errors.New(long)
	if got := Error(fmt.Errorf("failed: %w", cause)); len(got.Error()) > MessageBytes || !errors.Is(got, cause) {
		t.Errorf("%d bytes", len(got.Error()))
	}
	if got := Error(io.EOF); got != io.EOF || Error(nil) != nil || Message("short") != "short" {
		t.Errorf("a short text is changed: %v", got)
	}
}

func TestSizeOf(t *testing.T) {
	text := strings.Repeat("x", 1000)
	type inner struct{ text string }
	for name, c := range map[string]struct {
		value any
		least int64
	}{
		"a string": {text, 1000}, "a pointer": {&inner{text}, 1000}, "a list": {[]inner{{text}, {text}}, 2000},
		"a map": {map[string]*inner{text: {text}}, 2000}, "bytes": {make([]byte, 10, 1000), 1000}, "numbers": {make([]int64, 100), 800},
		"an array": {[2]any{text, nil}, 1000}, "nothing": {nil, 0},
	} {
		if got := SizeOf(c.value); got < c.least || got > c.least+200 {
			t.Errorf("%s: %d bytes, want about %d", name, got, c.least)
		}
	}
	type loop struct{ next *loop }
	endless := &loop{}
	endless.next = endless
	_ = SizeOf(endless)
}

// TestShares: a namespace leaves a quarter to the others, and what is given back is taken again.
func TestShares(t *testing.T) {
	s := NewShares(8)
	take := func(namespace string, times int) (taken int) {
		for range times {
			if s.Take(namespace) {
				taken++
			}
		}
		return taken
	}
	if got := take("a", 8); got != 6 {
		t.Errorf("one namespace took %d of 8, want 6", got)
	}
	if got := take("b", 8); got != 2 {
		t.Errorf("another took %d, want the 2 that were left", got)
	}
	s.Give("a")
	if s.Give("b"); take("a", 8) != 1 || take("b", 8) != 1 {
		t.Error("what was given back was not taken again by those who gave it")
	}
	if got := NewShares(1).Take("a"); !got {
		t.Error("the only place was not taken")
	}
}
