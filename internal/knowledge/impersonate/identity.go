package impersonate

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// GroupMember is the user in a member for every caller who holds clusters/proxy through a group only. The member has to name
	// whom to allow, and who belongs to a group of the control plane is not known there. Rights in members are given to the
	// group.
	GroupMember = "flagship:group-member"
	// UserExtra is the key under which a member's audit log finds the name of such a user.
	UserExtra = "flagship.io/user"
)

// Identity is who acts in the member.
type Identity struct {
	User   string
	Groups []string
	// Extra is the value of UserExtra; empty if User is the caller.
	Extra string
}

// ForbiddenError is why a caller may not act in members.
type ForbiddenError struct{ message string }

// Error implements error.
func (e *ForbiddenError) Error() string { return e.message }

func forbidden(format string, args ...any) error {
	return &ForbiddenError{fmt.Sprintf(format, args...)}
}

// Identity returns who the caller is in the member, or a ForbiddenError. Of the caller's groups only those count that hold
// clusters/proxy themselves.
func (s Subjects) Identity(user string, groups []string) (Identity, error) {
	namespace, account, isAccount := accountOf(user)
	for _, group := range groups {
		usual := group == authenticated || group == allAccountsGroup || isAccount && group == accountsGroupPrefix+namespace
		if !usual && privilegedGroup(group) {
			return Identity{}, forbidden("members accept no user of the group %q: use an account without it that holds clusters/proxy", group)
		}
	}
	if privilegedUser(user) {
		return Identity{}, forbidden("members do not accept %q, by which Kubernetes or the control plane acts: use another account that holds clusters/proxy", user)
	}
	if isAccount {
		if names, held := s.Accounts[namespace]; held && (names == nil || slices.Contains(names, account)) {
			return Identity{User: user}, nil // The member adds the groups of a service account.
		}
		return Identity{}, notNamed(user)
	}
	var named []string
	for _, group := range groups {
		if slices.Contains(s.Groups, group) {
			named = append(named, group)
		}
	}
	switch {
	case slices.Contains(s.Users, user):
		return Identity{User: user, Groups: named}, nil
	case len(named) > 0:
		return Identity{User: GroupMember, Groups: named, Extra: user}, nil
	}
	return Identity{}, notNamed(user)
}

func notNamed(user string) error {
	subject := "the user or one of its groups"
	if strings.HasPrefix(user, accountPrefix) {
		subject = "the service account or the group of its namespace"
	}
	return forbidden("members accept those only whom a ClusterRoleBinding names that grants clusters/proxy: bind %s, not all users", subject)
}
