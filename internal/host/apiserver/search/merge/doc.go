// Package merge makes what several clusters answer the answer of one API server: resource versions, lists, Tables. It sends no request.
package merge
