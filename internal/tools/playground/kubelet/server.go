package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

const (
	// streamIdle is how long a stream may be open without data, as in a kubelet.
	streamIdle = 4 * time.Hour
	// headerPatience is how long a client may take to send the header of a request.
	headerPatience = 10 * time.Second
)

// Server serves for the kubelets of all nodes of a cluster.
type Server struct {
	cluster   string
	authority *pki.Authority
	client    kubeletclient.KubeletTLSConfig
	listener  net.Listener
	clock     clock.PassiveClock

	pods    kubernetes.Interface // set by Serve
	serving chan struct{}        // closed by Serve
}

// Listen prepares a server, which has its keys in the directory and answers from Serve on.
func Listen(cluster, dir string) (*Server, error) {
	keys, err := pki.Open(dir, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	s := &Server{cluster: cluster, clock: clock.RealClock{}, serving: make(chan struct{})}
	if s.authority, err = keys.Authority("ca", "kubelets"); err != nil {
		return nil, fmt.Errorf("loading the authority of the kubelets: %w", err)
	}
	client, _, err := keys.Leaf("client", s.authority, pki.Profile{CommonName: "kube-apiserver"})
	if err != nil {
		return nil, fmt.Errorf("loading the certificate of the kubelets' client: %w", err)
	}
	s.client = kubeletclient.KubeletTLSConfig{CAFile: keys.Bundle("ca"), CertFile: client.CertFile, KeyFile: client.KeyFile}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listening for the kubelets: %w", err)
	}
	return s, nil
}

// Client leads the API server's requests to this server, whatever the address of the node: the addresses of nodes are in a
// network that does not exist.
func (s *Server) Client(c *kubeletclient.KubeletClientConfig) {
	c.TLSClientConfig = s.client
	c.Lookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.listener.Addr().String())
		}, nil
	}
}

// Serve answers until the context ends. Only the API server has a certificate that is accepted.
func (s *Server) Serve(ctx context.Context, client kubernetes.Interface) error {
	s.pods = client
	close(s.serving)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.authority.PEM)
	server := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerPatience,
		ErrorLog:          log.New(io.Discard, "", 0), // of connections without a certificate
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, GetCertificate: s.certificate,
		},
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ServeTLS(s.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving for the kubelets: %w", err)
	}
	return nil
}

// certificate is for the node that the client names: nodes come and go.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, key, err := s.authority.Issue(pki.Profile{CommonName: "kubelet", DNSNames: []string{hello.ServerName}})
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.withContainer(serveLogs))
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", s.withContainer(serveExec))
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", s.withContainer(serveAttach))
	mux.HandleFunc("/portForward/{namespace}/{pod}", s.servePortForward)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "this node is simulated: its kubelet has no "+r.URL.Path, http.StatusNotFound)
	})
	return mux
}

// container is one of a pod.
type container struct {
	*Server
	pod  *corev1.Pod
	name string
}

func (s *Server) withContainer(serve func(container, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if pod, ok := s.pod(w, r); ok {
			serve(container{s, pod, r.PathValue("container")}, w, r)
		}
	}
}

// pod reads the pod of a request, or answers that there is none.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) (*corev1.Pod, bool) {
	pod, err := s.pods.CoreV1().Pods(r.PathValue("namespace")).Get(r.Context(), r.PathValue("pod"), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		http.Error(w, "the pod does not exist", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	return pod, err == nil
}

func serveExec(c container, w http.ResponseWriter, r *http.Request) {
	if o, ok := c.streams(w, r); ok {
		command := r.URL.Query()[corev1.ExecCommandParam]
		remotecommand.ServeExec(w, r, c, c.pod.Name, string(c.pod.UID), c.name, command, o,
			streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	}
}

func serveAttach(c container, w http.ResponseWriter, r *http.Request) {
	if o, ok := c.streams(w, r); ok {
		remotecommand.ServeAttach(w, r, c, c.pod.Name, string(c.pod.UID), c.name, o,
			streamIdle, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	}
}

// streams are those that a client opens to a container, or the answer that the container does not run.
func (c container) streams(w http.ResponseWriter, r *http.Request) (*remotecommand.Options, bool) {
	if status := c.status(); status == nil || status.State.Running == nil {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not running", c.name, c.pod.Name), http.StatusBadRequest)
		return nil, false
	}
	o, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return o, err == nil
}

func (s *Server) servePortForward(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.pod(w, r)
	if !ok {
		return
	}
	if pod.Status.Phase != corev1.PodRunning {
		http.Error(w, fmt.Sprintf("pod %q is not running", pod.Name), http.StatusBadRequest)
		return
	}
	o, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{s, pod}, pod.Name, string(pod.UID), o,
		streamIdle, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}
