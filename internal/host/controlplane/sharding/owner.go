package sharding

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// keySeparator is between the key of a server and what makes its identity unique.
const keySeparator = "_"

// keyOf is the part of an identity that stays when a server starts again, so that it gets the same members.
func keyOf(identity string) string {
	if at := strings.LastIndex(identity, keySeparator); at >= 0 {
		return identity[:at]
	}
	return identity
}

// owner returns the identity in a view that a member is assigned to, "" in an empty view. It is the one with the highest hash of its key
// and the member (rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998). Of two servers
// with the same key, which is an error of whoever set them up, the one with the higher identity has the member.
func owner(view []string, member string) string {
	best, highest := "", uint64(0)
	var hash xxhash.Digest
	for _, identity := range view {
		hash.Reset()
		_, _ = hash.WriteString(keyOf(identity)) // a hash takes everything
		_, _ = hash.WriteString("\x00")
		_, _ = hash.WriteString(member)
		if weight := hash.Sum64(); best == "" || weight > highest || weight == highest && identity > best {
			best, highest = identity, weight
		}
	}
	return best
}
