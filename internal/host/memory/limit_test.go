package memory

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestTheLimitOfACgroup(t *testing.T) {
	const own, v2, v1 = "proc/self/cgroup", "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2 in a container":   {map[string]string{own: "0::/\n", v2 + "memory.max": "1000\n"}, 1000},
		"version 2 without a limit":  {map[string]string{own: "0::/\n", v2 + "memory.max": "max\n"}, math.MaxInt64},
		"version 2 of a unit":        {map[string]string{own: "0::/system.slice/a.service\n", v2 + "system.slice/a.service/memory.max": "2000\n"}, 2000},
		"a cgroup around it":         {map[string]string{own: "0::/a/b\n", v2 + "a/memory.max": "500\n", v2 + "a/b/memory.max": "1000\n"}, 500},
		"version 1":                  {map[string]string{own: "5:cpu:/a\n4:memory:/a\n0::/\n", v1 + "a/memory.limit_in_bytes": "3000\n"}, 3000},
		"version 1 in a container":   {map[string]string{own: "4:memory:/docker/1\n", v1 + "memory.limit_in_bytes": "3000\n"}, 3000},
		"version 1 without a limit":  {map[string]string{own: "4:memory:/\n", v1 + "memory.limit_in_bytes": "9223372036854771712\n"}, 9223372036854771712},
		"no Linux":                   {nil, math.MaxInt64},
		"a path that leads upwards":  {map[string]string{own: "0::/../../a\n", v2 + "memory.max": "1000\n"}, 1000},
		"lines that cannot be read":  {map[string]string{own: "x\n\n0::/\n", v2 + "memory.max": "1000\n"}, 1000},
		"a value that is not number": {map[string]string{own: "0::/\n", v2 + "memory.max": "much\n"}, math.MaxInt64},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := cgroupLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestTheLimitIsThatOfTheCgroup(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const most = 10 << 30
	root := fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/")}, "sys/fs/cgroup/memory.max": {Data: []byte("max")}}
	t.Setenv("GOMEMLIMIT", "")
	if got := setLimit(root); got != before {
		t.Errorf("without a limit it is %d, was %d", got, before)
	}
	root["sys/fs/cgroup/memory.max"].Data = []byte("10737418240")
	t.Setenv("GOMEMLIMIT", "1GiB")
	if got := setLimit(root); got != before {
		t.Errorf("with GOMEMLIMIT it is %d, was %d", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	if got := setLimit(root); got < most*89/100 || got > most*90/100 {
		t.Errorf("it is %d of %d", got, int64(most))
	}
}
