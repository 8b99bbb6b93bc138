package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/apistore"
)

// bookmarkSeconds is how often a watch gets a bookmark, as of kube-apiserver.
const bookmarkSeconds = 60

// Description is how to reach stand-ins.
type Description struct {
	// Control is the URL of their control server.
	Control string `json:"control"`
	// CA, PEM, verifies all of them.
	CA      []byte   `json:"ca"`
	Members []Access `json:"members"`
}

// Access is one stand-in and a token of its administrator.
type Access struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Statistics are what stand-ins count.
type Statistics struct {
	Requests [kindsOfRequests]int64 `json:"requests"`
	// Written has the writes by verb and resource.
	Written map[string]int64 `json:"written"`
	// Watches is how many run now.
	Watches int `json:"watches"`
	Objects int `json:"objects"`
}

// Arrival is when an object was first there in a member.
type Arrival struct {
	Member int       `json:"member"` // its index
	At     time.Time `json:"at"`
}

// Server runs stand-ins.
type Server struct {
	members []*listening
	Description
	running sync.WaitGroup
}

// listening is a stand-in with its server.
type listening struct {
	*Member
	address string
	tls     *tls.Config

	mu     sync.Mutex
	server *http.Server
	served sync.WaitGroup
}

// Start runs a number of stand-ins until ctx ends; Wait returns when they have ended.
func Start(ctx context.Context, count int) (*Server, error) {
	config, ca, err := newTLS()
	if err != nil {
		return nil, err
	}
	shared, err := apistore.NewShared()
	if err != nil {
		return nil, err
	}
	s := &Server{Description: Description{CA: ca}}
	for i := range count {
		member, err := newMember(fmt.Sprintf("standin-%04d", i), shared, ca)
		if err != nil {
			return nil, err
		}
		l := &listening{Member: member, address: "127.0.0.1:0", tls: config}
		if err := l.open(); err != nil {
			return nil, err
		}
		token, _ := member.token(types.NamespacedName{Namespace: "kube-system", Name: "admin"}, 0)
		s.members = append(s.members, l)
		s.Members = append(s.Members, Access{Name: member.Name, URL: "https://" + l.address, Token: token})
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for control requests: %w", err)
	}
	s.Control = "http://" + control.Addr().String()
	controlServer := &http.Server{Handler: s.control(), ReadHeaderTimeout: time.Minute}
	s.running.Go(func() { _ = controlServer.Serve(control) })
	s.running.Go(func() { s.run(ctx, controlServer) })
	return s, nil
}

// Wait returns when all servers have ended, which they do with the context of Start.
func (s *Server) Wait() { s.running.Wait() }

// run sends bookmarks until ctx ends, and then ends all servers.
func (s *Server) run(ctx context.Context, control *http.Server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
			for _, m := range s.members {
				m.SendBookmarks(i, bookmarkSeconds)
			}
		case <-ctx.Done():
			_ = control.Close()
			for _, m := range s.members {
				m.close()
			}
			return
		}
	}
}

// open begins to listen, on the same port as before.
func (l *listening) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("listening for %s: %w", l.Name, err)
	}
	l.address = listener.Addr().String()
	server := &http.Server{Handler: l.Member, TLSConfig: l.tls.Clone(), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	l.server = server
	l.served.Go(func() { _ = server.ServeTLS(listener, "", "") })
	return nil
}

// close ends all connections, and refuses further ones.
func (l *listening) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.Close()
		l.served.Wait()
		l.server = nil
	}
}

// Set changes the mode of some stand-ins, by their index.
func (s *Server) Set(mode Mode, first, count int) error {
	if err := mode.validate(); err != nil {
		return err
	}
	if first < 0 || count < 0 || first+count > len(s.members) {
		return fmt.Errorf("there are %d stand-ins", len(s.members))
	}
	var faults []error
	for _, m := range s.members[first : first+count] {
		m.fault.set(mode)
		if mode == Gone {
			m.close()
		} else {
			faults = append(faults, m.open())
		}
	}
	return errors.Join(faults...)
}

// Statistics adds up what the stand-ins count.
func (s *Server) Statistics() Statistics {
	sum := Statistics{Written: map[string]int64{}}
	for _, m := range s.members {
		for kind := range m.requests {
			sum.Requests[kind] += m.requests[kind].Load()
		}
		for what, n := range m.writes() {
			sum.Written[what] += n
		}
		objects, watches := m.Count()
		sum.Objects, sum.Watches = sum.Objects+objects, sum.Watches+watches
	}
	return sum
}

// Arrivals lists in which stand-ins an object is, and since when.
func (s *Server) Arrivals(resource schema.GroupVersionResource, key types.NamespacedName) []Arrival {
	arrivals := []Arrival{}
	for i, m := range s.members {
		if object := m.Get(resource, key); object != nil {
			arrivals = append(arrivals, Arrival{Member: i, At: object.Arrived})
		}
	}
	return arrivals
}

// control serves those who measure.
func (s *Server) control() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /statistics", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Statistics()) })
	mux.HandleFunc("GET /arrivals", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		resource, _ := schema.ParseResourceArg(query.Get("resource"))
		if resource == nil {
			http.Error(w, "resource is not of the form resource.version.group", http.StatusBadRequest)
			return
		}
		answer(w, s.Arrivals(*resource, types.NamespacedName{Namespace: query.Get("namespace"), Name: query.Get("name")}))
	})
	mux.HandleFunc("POST /mode", func(w http.ResponseWriter, r *http.Request) {
		first, err1 := strconv.Atoi(r.URL.Query().Get("first"))
		count, err2 := strconv.Atoi(r.URL.Query().Get("count"))
		if err := errors.Join(err1, err2, s.Set(Mode(r.URL.Query().Get("mode")), first, count)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	return mux
}

// newTLS makes a certificate for 127.0.0.1 that all stand-ins share, and verifies itself.
func newTLS() (*tls.Config, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-ins"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2"}}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
