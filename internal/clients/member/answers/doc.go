// Package answers distinguishes the answers of an API server from those of something else in its place, such as a proxy with a login
// page. The clients of client-go do not: they ignore the body of the answer to a deletion, and take an object of another kind for an
// empty one of the kind that they expect.
package answers
