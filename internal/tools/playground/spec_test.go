package playground

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

func TestPlan(t *testing.T) {
	two := fleetSpec{HubPort: 20001, Members: []memberSpec{{Name: "member1", Port: 20002}, {Name: "member2", Port: 20003}}}
	cases := map[string]struct {
		reason  string
		before  fleetSpec
		config  Config
		want    []string
		hubPort int // 0: any
		err     string
	}{
		"New":          {reason: "a new directory gets the default", config: Config{Members: -1}, want: []string{"member1", "member2"}},
		"None":         {reason: "a hub alone is a fleet", config: Config{Members: 0}},
		"StaysNone":    {reason: "and comes back as one", before: fleetSpec{HubPort: 20001}, config: Config{Members: -1}, hubPort: 20001},
		"Same":         {reason: "what was chosen once stays", before: two, config: Config{Members: -1}, want: []string{"member1", "member2"}, hubPort: 20001},
		"Grows":        {reason: "members can be added", before: two, config: Config{Members: 3}, want: []string{"member1", "member2", "member3"}, hubPort: 20001},
		"NeverShrinks": {reason: "leaving out a joined member would only make it NotReady", before: two, config: Config{Members: 1}, err: "has 2 members"},
		"Agents":       {reason: "a new member can have an agent", before: two, config: Config{Members: 3, Pull: []string{"member3"}}, want: []string{"member1", "member2", "member3"}, hubPort: 20001},
		"NoSuchMember": {reason: "a misspelt name is an error", before: two, config: Config{Members: 3, Pull: []string{"member4"}}, err: `there is no member "member4"`},
		"WasJoined": {
			reason: "how a member was joined stays", config: Config{Members: 1, Pull: []string{"member1"}}, err: "member1 was joined in Push mode before",
			before: fleetSpec{HubPort: 20001, Members: []memberSpec{{Name: "member1", Port: 20002, Joined: true}}},
		},
		"FixedPort": {reason: "the person's port wins over the one in the file", before: two, config: Config{Members: -1, Port: 20009}, want: []string{"member1", "member2"}, hubPort: 20009},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := plan(tc.before, tc.config, machine.NewPortChooser())
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("%s: got error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			ports, ranges := map[int]bool{got.HubPort: true}, map[string]bool{}
			for _, m := range got.Members {
				names = append(names, m.Name)
				ports[m.Port], ranges[m.PodCIDR+m.ServiceCIDR] = true, true
			}
			if diff := cmp.Diff(tc.want, names, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if tc.hubPort != 0 && got.HubPort != tc.hubPort {
				t.Errorf("%s: hub port %d, want %d", tc.reason, got.HubPort, tc.hubPort)
			}
			if len(ports) != len(got.Members)+1 {
				t.Errorf("ports are not all different: %+v", got)
			}
			if diff := cmp.Diff(tc.before.Members, got.Members[:len(tc.before.Members)], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("members that existed changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRangesOfMembersDoNotMeet(t *testing.T) {
	var all []*net.IPNet
	for _, text := range []string{"10.96.0.0/16", "fd00:10:96::/112"} {
		_, hub, _ := net.ParseCIDR(text)
		all = append(all, hub)
	}
	for i := range maxMembers {
		m := newMember(i, 1, Config{})
		for _, text := range append(strings.Split(m.ServiceCIDR, ","), m.PodCIDR) {
			_, cidr, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range all {
				if other.Contains(cidr.IP) || cidr.Contains(other.IP) {
					t.Errorf("%s meets %s", cidr, other)
				}
			}
			all = append(all, cidr)
		}
	}
}

func TestSpecSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "playground.json")
	first, err := openSpec(path)
	if err != nil {
		t.Fatal(err)
	}
	want := fleetSpec{HubPort: 1, Members: []memberSpec{{Name: "member1", Port: 2, Nodes: 3, Joined: true}}}
	if err := first.change(func(r *fleetSpec) { *r = want }); err != nil {
		t.Fatal(err)
	}
	second, err := openSpec(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, second.data); diff != "" {
		t.Errorf("spec (-written +read):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSpec(path); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file gave %v", err)
	}
}

func TestLogStaysBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "member.log")
	log, err := openLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 39) + "\n"
	for range 10 {
		if n, err := log.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil || info.Size() > 100 || info.Size() == 0 {
			t.Errorf("%s: %v, %v; want between 1 and 100 bytes", name, info, err)
		}
	}
	if _, err := os.Stat(path + ".2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kept more than one old file: %v", err)
	}
}
