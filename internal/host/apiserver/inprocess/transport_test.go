package inprocess_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
)

// wire stands for the way through the network.
type wire struct{ used int }

func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	w.used++
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: http.NoBody}, nil
}

func client(handler http.HandlerFunc) *http.Client {
	return &http.Client{Transport: inprocess.NewTransport(handler, &wire{})}
}

func get(t *testing.T, c *http.Client) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/a%2Fb?x=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(request)
}

func TestRequestAndAnswer(t *testing.T) {
	c := client(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		r.Header.Set("Token", "changed by the handler")
		w.Header().Set("X-Seen", fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.URL.Path, " ", r.Host, " ", string(data)))
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "too late")
		_, _ = w.Write([]byte("hello"))
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub/a%2Fb?x=1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Token", "mine")
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "hello" || response.StatusCode != http.StatusTeapot || response.Status != "418 I'm a teapot" {
		t.Errorf("got %s %q, %v", response.Status, body, err)
	}
	if got, want := response.Header.Get("X-Seen"), "POST /a%2Fb?x=1 /a/b hub body"; got != want {
		t.Errorf("the handler received %q, want %q", got, want)
	}
	if response.Header.Get("X-Late") != "" {
		t.Error("a header set after the answer began has reached the client")
	}
	if request.Header.Get("Token") != "mine" {
		t.Error("the handler has changed the client's request")
	}
}

// A request that is made while another one is handled is a request of its own.
func TestValuesOfTheClientAreNotPassedOn(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "of the client")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub/", nil)
	if err != nil {
		t.Fatal(err)
	}
	var seen any
	response, err := client(func(_ http.ResponseWriter, r *http.Request) { seen = r.Context().Value(key{}) }).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if seen != nil {
		t.Errorf("the handler has the value %q", seen)
	}
}

func TestSilentHandler(t *testing.T) {
	response, err := get(t, client(func(http.ResponseWriter, *http.Request) {}))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v, want 200 and nothing", response, err)
	}
	if body, err := io.ReadAll(response.Body); err != nil || len(body) != 0 {
		t.Errorf("got %q, %v", body, err)
	}
}

// TestStream is a watch: events reach the client while the handler runs, and the handler ends with it.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, ended := make(chan string), make(chan error, 1)
		response, err := get(t, client(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			for {
				select {
				case line := <-next:
					_, _ = w.Write([]byte(line))
				case <-r.Context().Done():
					ended <- r.Context().Err()
					return
				}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"one", "two"} {
			next <- line
			got := make([]byte, 10)
			if n, err := response.Body.Read(got); err != nil || string(got[:n]) != line {
				t.Errorf("got %q, %v, want %q", got[:n], err, line)
			}
		}
		_ = response.Body.Close()
		if err := <-ended; err == nil {
			t.Error("the handler goes on without a client")
		}
	})
}

func TestCancelledWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := client(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub/", nil)
		if err != nil {
			t.Fatal(err)
		}
		// Either the request or its empty body fails, whoever is first.
		response, err := c.Do(request)
		if err == nil {
			_, err = io.ReadAll(response.Body)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
}

func TestCancelledWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := client(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://hub/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled: a watch ends with its context", err)
		}
	})
}

func TestAbort(t *testing.T) {
	if _, err := get(t, client(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })); err == nil {
		t.Error("an abort before the answer has begun looks like an answer")
	}
	response, err := get(t, client(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic(http.ErrAbortHandler)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(response.Body); err == nil || string(body) != "half" {
		t.Errorf("got %q, %v, want half an answer and an error", body, err)
	}
}

func TestSlowReaderSlowsTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		chunk := make([]byte, 64<<10)
		const chunks = 100
		response, err := get(t, client(func(w http.ResponseWriter, _ *http.Request) {
			for range chunks {
				n, _ := w.Write(chunk)
				written.Add(int64(n))
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := written.Load(); got > 2<<20 {
			t.Errorf("the handler is %d bytes ahead of a client that reads nothing", got)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || !bytes.Equal(body, make([]byte, chunks*len(chunk))) {
			t.Errorf("got %d bytes, %v", len(body), err)
		}
	})
}

func TestClosedReaderFreesTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		response, err := get(t, client(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					ended <- err
					return
				}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = response.Body.Close()
		if err := <-ended; err == nil {
			t.Error("the handler writes without a reader")
		}
	})
}

func TestUpgradesTakeTheNetwork(t *testing.T) {
	network := &wire{}
	transport := inprocess.NewTransport(http.NotFoundHandler(), network)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "SPDY/3.1")
	if response, err := transport.RoundTrip(request); err != nil || response.StatusCode != http.StatusSwitchingProtocols || network.used != 1 {
		t.Errorf("got %v, %v, network used %d times", response, err, network.used)
	}
}

func TestStoppedServer(t *testing.T) {
	transport := inprocess.NewTransport(http.NotFoundHandler(), &wire{})
	transport.Close()
	c := &http.Client{Transport: transport}
	if _, err := get(t, c); !errors.Is(err, inprocess.ErrStopped) {
		t.Errorf("got %v, want ErrStopped: etcd is gone, and a request to it would never end", err)
	}
}

// TestCloseWaitsForHandlers: etcd ends after the server, and no handler may use it then.
func TestCloseWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled, mayEnd := make(chan error, 1), make(chan struct{})
		transport := inprocess.NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			cancelled <- context.Cause(r.Context())
			<-mayEnd
		}), &wire{})
		response, err := get(t, &http.Client{Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			transport.Close()
		}()
		if err := <-cancelled; !errors.Is(err, inprocess.ErrStopped) {
			t.Errorf("the context of the handler ended with %v, want ErrStopped", err)
		}
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close has returned while a handler runs")
		default:
		}
		close(mayEnd)
		<-closed
		if _, err := io.ReadAll(response.Body); !errors.Is(err, inprocess.ErrStopped) {
			t.Errorf("the body ends with %v, want ErrStopped", err)
		}
	})
}
