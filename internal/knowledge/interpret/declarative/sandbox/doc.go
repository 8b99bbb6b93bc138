// Package sandbox runs Lua functions that may be wrong or hostile, with limits on steps, memory and time.
//
// In: the text of a script, the values for one call, libraries of functions in Go.
//
// Out: the values that the call returns.
//
// Owns: the language that scripts see. It is Lua 5.1 with the functions of base, string, table and math that a pure function
// needs, and the clock from os. Nothing reaches files, processes, the network or another call: every call starts from a fresh
// global environment. A call ends with an error after a second, after two million steps, or when it builds a string of more than
// a mebibyte; strings and lists cost steps, so that memory is bounded by them. Metatables, coroutines, and what loads or compiles
// more code are left out, because they would evade these bounds.
//
// gopher-lua counts instructions (by its context), call frames and registers, and that is used here. It does not bound what one
// instruction costs: each of these scripts takes a gibibyte, or does not end, in a virtual machine that counts instructions only:
//
//	s = 'x' while true do s = s .. s end                           rewrite.go
//	t = {} t[6e7] = 1                                              rewrite.go
//	function f(...) while true do t[#t + 1] = {...} end end        rewrite.go
//	('x'):rep(4e9), ('%s%s'):format(s, s), table.concat({s, s})    strings.go
//	(('a'):rep(3000)):find('.-.-.-.-.-b')                          pattern.go
//
// github.com/arnodel/golua bounds all of this, as an alpha feature, but its language is Lua 5.4: the scripts that users of Karmada
// have are of 5.1, where 10 / 2 is 5 and not 5.0.
//
// Never: compiles or runs what the language does not have, or keeps a value of a call.
package sandbox
