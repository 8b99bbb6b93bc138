// Package expectations separates the events of a controller's own writes from those of others.
//
// In: what a controller wrote, and the events of its informer.
// Out: whether an event reports nothing but a write of the controller, and the newest state of an object that is known.
// Owns: nothing.
// Never: reads or writes an object.
package expectations
