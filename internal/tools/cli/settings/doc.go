// Package settings sets the flags of a command from a configuration file and from the environment.
//
// A field of the file has the name of its flag in camel case, and a variable that name in capitals, after FLAGSHIP_: --bind-address,
// bindAddress and FLAGSHIP_BIND_ADDRESS are one setting. So there is no table of names, and one place for meanings and defaults, which
// is the flag. A Reloader applies changes of the file while the process runs, for the flags that are marked with Reload.
package settings
