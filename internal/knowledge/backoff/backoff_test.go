package backoff

import "testing"

func TestOneRequestThatFailsDoesNotDelayOthers(t *testing.T) {
	limiter := Limiter[string]()
	for range 100 {
		limiter.When("fails")
	}
	if got := limiter.When("fails"); got != Longest {
		t.Errorf("after many failures the pause is %s, want %s", got, Longest)
	}
	if got := limiter.When("other"); got != First {
		t.Errorf("the first failure of another request pauses %s, want %s", got, First)
	}
}
