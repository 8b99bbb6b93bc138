package memberaccount

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Life is when a token was issued and when it ends, by its own claims.
type Life struct {
	issued, Ends time.Time
}

// LifeOf reads the claims of a JSON web token, without verifying it: it is our own. It returns false for a token that is
// none, or that never ends.
func LifeOf(token []byte) (Life, bool) {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return Life{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Life{}, false
	}
	var claims struct {
		Issued int64 `json:"iat"`
		Ends   int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Ends <= claims.Issued || claims.Issued == 0 {
		return Life{}, false
	}
	return Life{issued: time.Unix(claims.Issued, 0), Ends: time.Unix(claims.Ends, 0)}, true
}

// Shifted is the same life by another clock, which is ahead by some time.
func (l Life) Shifted(ahead time.Duration) Life {
	return Life{issued: l.issued.Add(ahead), Ends: l.Ends.Add(ahead)}
}

func (l Life) Duration() time.Duration { return l.Ends.Sub(l.issued) }

// MuchLess returns whether a member granted less than was requested. Some API servers grant some minutes more or less.
func MuchLess(granted, requested time.Duration) bool { return granted < requested*9/10 }

// Renewal is when the token should be replaced: at one third of its life, which leaves two thirds for a member or a hub
// that is away at that moment.
func (l Life) Renewal() time.Time {
	return l.issued.Add(l.Duration() / 3)
}

// TokenExpiry is when a token ends, by its own claims; zero if it has none.
func TokenExpiry(token []byte) time.Time {
	l, ok := LifeOf(token)
	if !ok {
		return time.Time{}
	}
	return l.Ends
}
