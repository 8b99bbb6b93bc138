package apiserver

import "github.com/flagship-k8s/flagship/internal/host/apiserver/clusters"

// Dial says how to reach the API server of a member cluster on behalf of a user.
type Dial = clusters.Dial

// Endpoint is a member's API server and the credential that may impersonate users there.
type Endpoint = clusters.Endpoint
