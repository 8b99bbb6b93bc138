// Package access configures what the API server does with a request before it is served: authentication, authorization, audit
// and admission.
package access
