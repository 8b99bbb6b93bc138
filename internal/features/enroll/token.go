package enroll

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// life is when a token was issued and when it ends, as it says itself.
type life struct {
	issued, ends time.Time
}

// lifeOf reads the claims of a JSON web token, without verifying it: it is our own. It returns false for a token that is
// none, or that never ends.
func lifeOf(token []byte) (life, bool) {
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return life{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return life{}, false
	}
	var claims struct {
		Issued int64 `json:"iat"`
		Ends   int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Ends <= claims.Issued || claims.Issued == 0 {
		return life{}, false
	}
	return life{issued: time.Unix(claims.Issued, 0), ends: time.Unix(claims.Ends, 0)}, true
}

func (l life) duration() time.Duration { return l.ends.Sub(l.issued) }

// muchLess tells whether a member granted less than was requested. Some API servers grant some minutes more or less.
func muchLess(granted, requested time.Duration) bool { return granted < requested*9/10 }

// renewal is when the token should be replaced: at one third of its life, which leaves two thirds for a member or a hub
// that is away at that moment.
func (l life) renewal() time.Time {
	return l.issued.Add(l.duration() / 3)
}

// TokenExpiry is when a token ends, as it says itself; zero if it does not say.
func TokenExpiry(token []byte) time.Time {
	l, ok := lifeOf(token)
	if !ok {
		return time.Time{}
	}
	return l.ends
}
