// Package objects writes single objects in members: it applies, deletes and releases them.
//
// [Writer.Apply] sends nothing for an object that equals its manifest. It applies without force first; a conflict over a field
// that the control plane applied before is drift and is forced, any other is left out and returned. [Writer.Remove] deletes or
// releases only what belongs to the Work, and only what the brake admits.
package objects
