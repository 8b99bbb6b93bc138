package objectcache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestCodec(t *testing.T) {
	codec, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	var concurrent sync.WaitGroup
	for name, text := range map[string]string{
		"nothing": "", "a byte": "x", "what does not compress": string(noise),
		"an object":                  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"a":"b"}}`,
		"more than the window holds": strings.Repeat(fmt.Sprintf("%x", noise[:5000]), 40),
	} {
		concurrent.Go(func() {
			for range 20 {
				compressed := codec.compress([]byte(text))
				if cap(compressed) != len(compressed) {
					t.Errorf("%s: %d bytes of %d are unused", name, cap(compressed)-len(compressed), cap(compressed))
				}
				if again, err := codec.decompress(compressed); err != nil || !bytes.Equal(again, []byte(text)) {
					t.Errorf("%s: %d bytes became %d, and then %d: %v", name, len(text), len(compressed), len(again), err)
				}
			}
		})
	}
	concurrent.Wait()
	if _, err := codec.decompress([]byte("{}")); err == nil {
		t.Error("what was not compressed is decompressed")
	}
}
