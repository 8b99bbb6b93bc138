package bench

import (
	"strings"
	"testing"
)

func TestHeapFiguresAreReadFromAProfile(t *testing.T) {
	text := "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# TotalAlloc = 42\n# HeapAlloc = 7\n"
	got, err := parseHeap(text)
	if want := (heap{Live: 7, allocated: 42}); err != nil || got != want {
		t.Errorf("parseHeap() = %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"nothing of the kind", "", "# TotalAlloc = 42\n# HeapAlloc = many\n"} {
		if _, err := parseHeap(text); err == nil {
			t.Errorf("%q has no figures and is no error", text)
		}
	}
	long := "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 5\n# TotalAlloc = 6\n# HeapAlloc = 604123456\n# HeapSys = 7\n"
	if got, err := parseHeap(long); err != nil || got.Live != 604_123_456 {
		t.Errorf("%d bytes live, %v, want 604123456", got.Live, err)
	}
}

func TestClaimsAreShownAsAMultipleOfTheBuiltInKind(t *testing.T) {
	var out strings.Builder
	printClaims(&out, []ClaimResult{
		{Step: "create", Version: "v1", Claims: 10, Seconds: 2, CPUSeconds: 4, AllocatedBytes: 1e6},
		{Step: "create", Version: "v1alpha2", Claims: 10, Seconds: 1, CPUSeconds: 6, AllocatedBytes: 1e6},
	})
	for _, want := range []string{"1.00 / 2.00 s (0.50)", "6.00 / 4.00 s (1.50)", "1.00 / 1.00 MB (1.00)", "0.00 / 0.00 MB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
