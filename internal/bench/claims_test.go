package bench

import (
	"strings"
	"testing"
)

func TestHeapFiguresAreReadFromAProfile(t *testing.T) {
	text := "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# TotalAlloc = 42\n# HeapAlloc = 7\n"
	got, err := parseHeap(text)
	if want := (heap{live: 7, allocated: 42}); err != nil || got != want {
		t.Errorf("parseHeap() = %v, %v, want %v", got, err, want)
	}
	if _, err := parseHeap("nothing of the kind"); err == nil {
		t.Error("a text without figures is no error")
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
