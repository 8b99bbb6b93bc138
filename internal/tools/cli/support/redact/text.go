package redact

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Removed stands in the place of what was taken out.
const Removed = "<removed>"

// patterns are forms of secrets in free text. They are the last net below the rules for objects, and all that logs have.
var patterns = []struct {
	is   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(-----END [A-Z0-9 ]+-----|$)`), Removed},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), Removed},                                                                                                          // a JWT
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Removed},                                                                                                                                    // a bootstrap token
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/._~=-]{6,}`), "$1 " + Removed},                                                                                                            // a header
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^/@\s"']+@`), "$1" + Removed + "@"},                                                                                                                   // user and password in a URL
	{regexp.MustCompile(`(?i)\b([a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[-_]?key|private[-_]?key|credentials?)["']?[ \t]*[=:][ \t]*)("[^"]*"|'[^']*'|[^\s,;}&]+)`), "$1" + Removed}, // name=value
	// What an API server refuses, it repeats in its message.
	{regexp.MustCompile(`\b((?:Invalid|Unsupported|Duplicate|Forbidden) value: )("(?:\\.|[^"\\])*"|[^\n]*?)(: |$)`), "$1" + Removed + "$3"},
	{regexp.MustCompile(`AGE-SECRET-KEY-[A-Z0-9]+`), Removed},
}

// Text takes out of a text what has the form of a secret.
func Text(text string) string {
	for _, p := range patterns {
		text = p.is.ReplaceAllString(text, p.with)
	}
	return text
}

// Flags takes the values out of a command line, but for those that are a switch, a number, a duration, a quantity or an address.
func Flags(args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		switch {
		case i == 0: // the program
			out = append(out, arg)
		case i == 1 && !strings.HasPrefix(arg, "-"): // the command
			out = append(out, arg)
		case strings.HasPrefix(arg, "-") && assigned:
			out = append(out, name+"="+plain(value))
		case strings.HasPrefix(arg, "-"):
			out = append(out, arg)
		default:
			out = append(out, plain(arg))
		}
	}
	return out
}

// plain returns a value that cannot be a secret, and Removed for another.
func plain(value string) string {
	_, isBool := strconv.ParseBool(value)
	_, isDuration := time.ParseDuration(value)
	_, isQuantity := resource.ParseQuantity(value)
	if (isBool == nil || isDuration == nil || isQuantity == nil) && len(value) <= maxNumber || net.ParseIP(value) != nil {
		return value
	}
	return Removed
}

// maxNumber is the length up to which digits are a number of a setting, and no key.
const maxNumber = 8
