package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// errNotHTTP is the answer to a client of a forwarded port.
var errNotHTTP = errors.New("this pod is simulated: it answers HTTP requests and nothing else")

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
