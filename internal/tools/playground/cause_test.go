package playground

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCausesOfAnEnd(t *testing.T) {
	trace := "\ngoroutine 1 [running]:\nmain.main()\n" + strings.Repeat("\tserver.go:7 +0x1d\n", 40)
	entry := `{"level":"panic","ts":"2026-01-02T03:04:05Z","msg":"failed to write","error":"no space left on device"}`
	cases := map[string]struct {
		log  string
		want []string
	}{
		"Panic":        {"started\npanic: no space left on device" + trace, []string{"panic: no space left on device"}},
		"RuntimeError": {"fatal error: all goroutines are asleep - deadlock!" + trace, []string{"fatal error: all goroutines are asleep - deadlock!"}},
		"ZapAndPanic":  {`{"level":"warn","msg":"slow"}` + "\n" + entry + "\npanic: failed to write" + trace, []string{entry, "panic: failed to write"}},
		"ZapText":      {"2026-01-02T03:04:05Z\tFATAL\tno quorum\n", []string{"2026-01-02T03:04:05Z\tFATAL\tno quorum"}},
		"Klog":         {"E0102 03:04:05.0 7 a.go:1] bad\nF0102 03:04:05.0 7 a.go:1] worse\n", []string{"F0102 03:04:05.0 7 a.go:1] worse"}},
		"Before":       {"panic: in an earlier process" + trace + startMark + "member1\nE0102 03:04:05.0 7 a.go:1] bad\n", nil},
		"Mentioned":    {"I0102 03:04:05.0 7 a.go:1] no panic: all is well\n", nil},
		"Many":         {strings.Repeat("panic: again\n", 9), []string{"panic: again", "panic: again", "panic: again"}},
		"Empty":        {"", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Causes([]byte(tc.log))); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}
