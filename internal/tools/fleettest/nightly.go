package fleettest

import (
	"os"
	"testing"
)

// nightlyVar names the environment variable with which tests run that take long and guard little.
const nightlyVar = "FLAGSHIP_NIGHTLY"

// Nightly skips a test that `make test` leaves to `make test-nightly`. The reason says what it costs, or which other test guards the same.
func Nightly(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(nightlyVar) == "" {
		t.Skip("nightly: " + reason)
	}
}
