package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startLimit bounds how long a hub may take to be ready.
const startLimit = 2 * time.Minute

// startHub runs the binary until it says that it is ready.
func startHub(binary, dir string) (func(), error) {
	hub := exec.Command(binary, "server", "--data-dir", dir, "--bind-address", "127.0.0.1", "--port", "0")
	log, err := os.Create(filepath.Join(dir, "hub.log"))
	if err != nil {
		return nil, err
	}
	hub.Stderr = log
	output, err := hub.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := hub.Start(); err != nil {
		return nil, fmt.Errorf("starting the hub: %w", err)
	}
	ended := make(chan struct{})
	stop := func() {
		_ = hub.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	ready := make(chan bool, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if strings.Contains(lines.Text(), "is ready at") {
				ready <- true
			}
		}
		_ = hub.Wait()
		close(ready)
	}()
	select {
	case ok := <-ready:
		if ok {
			return stop, nil
		}
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the hub ended: %s", text)
	case <-time.After(startLimit):
		stop()
		return nil, errors.New("the hub was not ready in time")
	}
}
