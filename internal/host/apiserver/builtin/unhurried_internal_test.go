package builtin

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewsIsLateAndWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, sink := io.Pipe()
		delayed := delay(source, lull)
		begin := time.Now()
		go func() {
			_, _ = sink.Write([]byte("first"))
			<-time.After(lull / 2)
			_, _ = sink.Write([]byte("second"))
			_ = sink.Close()
		}()
		buffer := make([]byte, 3)
		if _, err := io.ReadFull(delayed, buffer); err != nil || time.Since(begin) != lull {
			t.Errorf("%q (%v) after %v, want it after %v", buffer, err, time.Since(begin), lull)
		}
		rest, err := io.ReadAll(delayed)
		if err != nil || string(rest) != "stsecond" {
			t.Errorf("the rest is %q (%v)", rest, err)
		}
		if took := time.Since(begin); took != lull+lull/2 {
			t.Errorf("all of it took %v, want %v: pieces wait side by side", took, lull+lull/2)
		}
		if err := delayed.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClosingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, sink := io.Pipe()
		delayed := delay(source, time.Hour)
		go func() { _, _ = sink.Write([]byte("never heard")) }()
		ended := make(chan error)
		go func() {
			_, err := delayed.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		begin := time.Now()
		if err := delayed.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil || time.Since(begin) > 0 {
			t.Errorf("a reader went on for %v and got %v", time.Since(begin), err)
		}
		if err := delayed.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})
}
