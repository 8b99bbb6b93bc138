// Package extensions keeps APIServices that users propagate to members out of the aggregator of a hub.
//
// In: the requests with which the aggregator lists and watches APIServices.
// Out: the same requests, for those APIServices that API servers register for what they serve themselves.
// Never: calls a Service that an APIService names. It is in members.
package extensions
