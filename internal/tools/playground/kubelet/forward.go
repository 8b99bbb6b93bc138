package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// errNotHTTP is the answer to a client of a forwarded port.
var errNotHTTP = errors.New("this pod is simulated: it answers HTTP requests and nothing else")

// DialPod is a connection to a port of the pod with the address, which answers as a forwarded port does. It leaves the process for
// nothing.
func (s *Server) DialPod(ctx context.Context, _, address string) (net.Conn, error) {
	select {
	case <-s.serving:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil, err
	}
	byAddress := fields.OneTermEqualSelector("status.podIP", host).String()
	pods, err := s.pods.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: byAddress})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.Phase == corev1.PodRunning {
			client, server := net.Pipe()
			go func() { _ = forwarder{s, pod}.PortForward(ctx, "", "", int32(port), server) }() // ends with the connection
			return client, nil
		}
	}
	return nil, fmt.Errorf("the network is simulated, and no running pod has the address %s", host)
}

// forwarder answers for the ports of a pod.
type forwarder struct {
	*Server
	pod *corev1.Pod
}

// PortForward answers one HTTP request with a page about the pod. It connects to nothing.
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	request, err := http.ReadRequest(bufio.NewReader(stream))
	if errors.Is(err, io.EOF) {
		return nil // a client that sent nothing
	}
	if err != nil {
		return errNotHTTP
	}
	page := fmt.Sprintf("This pod is simulated.\ncluster: %s\nnamespace: %s\npod: %s\nport: %d\n", f.cluster, f.pod.Namespace, f.pod.Name, port)
	response := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: true,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		ContentLength: int64(len(page)),
		Body:          io.NopCloser(strings.NewReader(page)),
	}
	return response.Write(stream)
}
