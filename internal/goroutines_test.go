package internal_test

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// goStatements are the functions that may have a go statement, with what ends or awaits that goroutine. sync.WaitGroup.Go, errgroup and
// memberwatch.Group are for all others, since their owner waits with one call.
var goStatements = map[string]string{
	"internal/tools/cli/settings/reload.go Start":                   "stop waits for it",
	"internal/tools/playground/kubelet/commands.go AttachContainer": "it reads a stream, which ends when the caller of this method closes the connection",
	"internal/tools/playground/kubelet/forward.go DialPod":          "it ends with the connection, which is the caller's",
	"internal/tools/playground/simcluster/run.go waitAtMost":        "waited for up to a limit, after which the process ends",
	"internal/tools/playground/playground.go Start":                 "Wait waits for it",
	"internal/tools/playground/playground.go startHub":              "hubDone, for which untilDone waits up to a limit",
	"internal/tools/playground/child/child.go Bind":                 "it reads the standard input, which cannot be interrupted; the process ends",
	"internal/tools/playground/child/process.go Spawn":              "Exited; it needs a thread of its own",
	"internal/tools/bench/scale/hub.go profile":                     "the returned function waits for it",
	"internal/tools/bench/fleet/profile.go Profile":                 "the returned function waits for it",
	"internal/host/controlplane/hub.go Start":                       "Wait waits for it",
	"internal/host/controlplane/hub.go runTerm":                     "waited for, up to a limit when the server has ended: loops may wait for an answer of it",
	"internal/host/apiserver/etcd/embedded.go launch":               "waited for unless etcd fails to start: it has no context",
	"internal/host/apiserver/etcd/failure.go unlessFailed":          "waited for unless etcd has failed: it does not end then",
	"internal/host/apiserver/server.go serve":                       "Wait waits for it, unless storage has failed",
	"internal/host/apiserver/replicasets/watch.go watchBoth":        "a watch.Interface: it ends with Stop, and has no way to wait",
	"internal/host/apiserver/storage/cachewatch.go Watch":           "a watch.Interface: it ends with Stop, and has no way to wait",
	"internal/host/apiserver/eventstorage/storage.go Watch":         "a watch.Interface: it ends with Stop, and has no way to wait",
	"internal/host/backup/repository/bucket.go Write":               "written, which Write receives from",
}

// ownLoops are the functions that make a loop, or the queue of one, without a controller of controller-runtime, with why an object that panics
// there ends neither the loop nor the process.
var ownLoops = map[string]string{
	"internal/clients/member/memberqueue/queues.go New":            "reconciles pass through Loop.Do",
	"internal/clients/member/memberqueue/queues.go forMember":      "reconciles pass through Loop.Do",
	"internal/clients/workstatus/writer.go New":                    "writes pass through Loop.Do",
	"internal/pipeline/observe/revisits.go newRevisits":            "visits pass through Loop.Do",
	"internal/features/crds/survey.go newSurveys":                  "a count passes through CatchPanic",
	"internal/knowledge/controlloop/handlers.go Handlers":          "event handlers are called through CatchPanic",
	"internal/knowledge/fairqueue/queue.go New":                    "it is the queue of others",
	"internal/host/apiserver/builtin/delayed.go Run":               "it passes events to handlers of upstream's garbage collector, in their order",
	"internal/host/apiserver/builtin/pods.go pods":                 "it reads the key and the deletion timestamp of pods, and nothing that users write",
	"internal/host/apiserver/credentials/poll.go Run":              "wait.UntilWithContext catches panics, and goes on",
	"internal/tools/playground/simcluster/volumes.go startVolumes": "a simulated member, which is a process of its own",
}

// loopMakers are the functions of libraries that make such loops and queues.
var loopMakers = []string{"wait.", "workqueue.New", "priorityqueue.New", "fairqueue.New"}

func makesLoop(call *ast.CallExpr) bool {
	fun := call.Fun
	switch generic := fun.(type) {
	case *ast.IndexExpr:
		fun = generic.X
	case *ast.IndexListExpr:
		fun = generic.X
	}
	name := calleeOf(&ast.CallExpr{Fun: fun})
	switch {
	case strings.HasPrefix(name, "wait."):
		return strings.Contains(name, "Until") && !strings.Contains(name, "Poll") || strings.HasPrefix(name, "wait.Forever")
	case strings.Contains(name, "Limiter"):
		return false
	}
	return slices.ContainsFunc(loopMakers[1:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// TestGoroutinesHaveOwners: what outlives its owner uses what that has closed, and a panic in it ends the process, which is also an API server
// and its storage.
func TestGoroutinesHaveOwners(t *testing.T) {
	unusedGo, unusedLoops := maps.Clone(goStatements), maps.Clone(ownLoops)
	for _, s := range sources(t) {
		if s.test() || s.generated() || s.pkg() == "tools/fleettest" {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			where := s.path + " " + f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					if delete(unusedGo, where); goStatements[where] == "" {
						t.Errorf("%s has a go statement, line %d: use sync.WaitGroup.Go and have the owner wait, or state in goStatements what waits", where, s.fset.Position(n.Pos()).Line)
					}
				case *ast.CallExpr:
					if !makesLoop(n) {
						return true
					}
					if delete(unusedLoops, where); ownLoops[where] == "" {
						t.Errorf("%s makes a loop of its own, line %d: use a controller with controlloop.Track, memberqueue or Loop.Turn, or state in ownLoops what catches panics",
							where, s.fset.Position(n.Pos()).Line)
					}
				}
				return true
			})
		}
	}
	for where := range unusedGo {
		t.Errorf("%s has no go statement: remove it from goStatements", where)
	}
	for where := range unusedLoops {
		t.Errorf("%s makes no loop: remove it from ownLoops", where)
	}
}

// TestControllersAreTracked: the reconciles of a controller have a deadline and are known to /readyz, and controller-runtime makes a panic an
// error, counts it and tries again, which is its default.
func TestControllersAreTracked(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !slices.Contains([]string{"pipeline", "features", "clients", "host"}, s.layer()) {
			continue
		}
		made, tracked := 0, 0
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "RecoverPanic" {
					t.Errorf("%s has %s: a panic of a reconcile is to be an error of it", s.path, n.Name)
				}
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				switch {
				case !ok:
				case pkg.Name == "controller" && strings.HasPrefix(n.Sel.Name, "New"), strings.HasSuffix(n.Sel.Name, "ControllerManagedBy"):
					made++
				case pkg.Name == "controlloop" && n.Sel.Name == "Track":
					tracked++
				}
			}
			return true
		})
		if made != tracked {
			t.Errorf("%s makes %d controllers and tracks %d: pass each reconciler through controlloop.Track", s.path, made, tracked)
		}
	}
}
