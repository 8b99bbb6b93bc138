package bench

import "testing"

func TestLiveHeap(t *testing.T) {
	for text, want := range map[string]int64{
		"heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 5\n# HeapAlloc = 604123456\n# HeapSys = 7\n": 604_123_456,
		"# HeapAlloc = many\n": 0,
		"":                     0,
	} {
		if got := liveHeap(text); got != want {
			t.Errorf("%q: %d bytes live, want %d", text, got, want)
		}
	}
}
