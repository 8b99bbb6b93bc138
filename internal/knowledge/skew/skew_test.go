package skew_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/skew"
)

func dated(at time.Time) http.Header {
	return http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}
}

func TestSkewFollowsTheDateOfAnswers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &skew.Skew{}
	for _, step := range []struct {
		name    string
		header  http.Header
		changed bool
		want    time.Duration
	}{
		{"none without a date", http.Header{}, false, 0},
		{"none for what is no date", http.Header{"Date": {"tomorrow"}}, false, 0},
		{"a minute is tolerated", dated(now.Add(time.Minute)), false, 0},
		{"ahead", dated(now.Add(time.Hour)), true, time.Hour},
		{"not each second counts", dated(now.Add(time.Hour - 9*time.Second)), false, time.Hour},
		{"but more does", dated(now.Add(time.Hour - time.Minute)), true, time.Hour - time.Minute},
		{"an answer without a date changes nothing", http.Header{}, false, time.Hour - time.Minute},
		{"behind", dated(now.Add(-time.Hour)), true, -time.Hour},
		{"corrected", dated(now), true, 0},
	} {
		if changed := s.See(step.header, now); changed != step.changed || s.Ahead() != step.want {
			t.Errorf("%s: changed %v, ahead %s; want %v and %s", step.name, changed, s.Ahead(), step.changed, step.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		time.Hour: "1h0m ahead of", -time.Hour: "1h0m behind", 90 * time.Second: "2m ahead of", -(25*time.Hour + 31*time.Second): "25h1m behind",
	} {
		if got := skew.Describe(ahead); got != want {
			t.Errorf("%s: %q, want %q", ahead, got, want)
		}
	}
}

// TestACorrectedClock has the time of the server from its first answer on.
func TestACorrectedClock(t *testing.T) {
	own := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	theirs := own.Now().Add(-time.Hour)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	corrected := &skew.Corrected{WithTickerAndDelayedExecution: own}
	var changes []time.Duration
	client := &http.Client{Transport: corrected.Wrap(http.DefaultTransport, func(ahead time.Duration) { changes = append(changes, ahead) })}
	for range 2 {
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if !corrected.Now().Equal(theirs) || corrected.Since(theirs.Add(-time.Minute)) != time.Minute || len(changes) != 1 {
		t.Errorf("it is %s there and %s by the corrected clock, after the changes %v", theirs, corrected.Now(), changes)
	}
}
