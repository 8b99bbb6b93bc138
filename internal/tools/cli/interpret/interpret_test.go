package interpret

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

const ship = `apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: ship}
spec:
  target: {apiVersion: sea.example.io/v1, kind: Ship}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          return observedObj.status.afloat == true
        end
    replicaRevision:
      luaScript: |
        function ReviseReplica(desiredObj, desiredReplica)
          desiredObj.spec.crew = desiredReplica
          return desiredObj
        end
`

func TestInterpret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.yaml", ship)
	bad := write("bad.yaml", ship+"---\n"+strings.Replace(strings.Replace(ship, "name: ship", "name: wreck", 1), "function InterpretHealth(", "function (", 1))
	other := write("other.yaml", strings.Replace(ship, "kind: ResourceInterpreterCustomization", "kind: Deployment", 1))
	object := write("object.yaml", "apiVersion: sea.example.io/v1\nkind: Ship\nmetadata: {name: a}\nspec: {crew: 3}\nstatus: {afloat: true}\n")
	deployment := write("deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 3}\n")
	claim := write("claim.yaml", "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {resourceClassName: x, allocationMode: Immediate}\n")
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"a script that compiles is fine":        {[]string{"check", "-f", good}, 0, "ok"},
		"one of two that does not is a failure": {[]string{"check", "-f", bad}, 1, "wreck"},
		"health is asked of the observed object": {
			[]string{"execute", "-f", good, "--operation", "InterpretHealth", "--observed-file", object}, 0, "healthy: true"},
		"replicas are revised in the desired object": {
			[]string{"execute", "-f", good, "--operation", "ReviseReplica", "--desired-file", object, "--desired-replica", "7"}, 0, "crew: 7"},
		"an operation that no interpreter has is misuse": {
			[]string{"execute", "-f", good, "--operation", "Retain", "--desired-file", object}, 2, "no interpreter has"},
		"what no customization says is built in": {
			[]string{"execute", "-f", good, "--operation", "InterpretReplica", "--observed-file", deployment}, 0, "replicas: 3"},
		"and the result says so": {
			[]string{"execute", "-f", good, "--operation", "InterpretReplica", "--observed-file", deployment}, 0, "No customization given answers"},
		"no customization is needed": {[]string{"execute", "--operation", "InterpretReplica", "--observed-file", deployment}, 0, "replicas: 3"},
		"claims of devices are known, too": {
			[]string{"execute", "--operation", "InterpretHealth", "--observed-file", claim}, 0, "healthy: false"},
		"no file at all is misuse":                {[]string{"check"}, 2, "name a file with -f"},
		"standard input is a file, too":           {[]string{"check", "-f", "-"}, 0, "Ship  ok"},
		"another kind is no customization":        {[]string{"check", "-f", other}, 1, "a Deployment is no ResourceInterpreterCustomization"},
		"a file that is missing is named":         {[]string{"check", "-f", object + ".missing"}, 1, object + ".missing"},
		"an operation needs its object":           {[]string{"execute", "-f", good, "--operation", "InterpretHealth"}, 2, "see 'flagship interpret execute --help' for the flag"},
		"an unknown operation is misuse":          {[]string{"execute", "-f", good, "--operation", "Sink", "--observed-file", object}, 2, "no interpreter has \"Sink\""},
		"a file of statuses is read strictly":     {[]string{"execute", "--operation", "AggregateStatus", "--desired-file", deployment, "--status-file", object}, 1, "reading --status-file"},
		"a second word that is missing is misuse": {nil, 2, "interpret needs a command: check, execute"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			build := func(s cli.Streams) *cobra.Command {
				return cli.Root(s, &cobra.Command{Use: "flagship"}, []*cobra.Command{NewCommand(s)})
			}
			code := cli.Run(build, append([]string{"interpret"}, c.args...), cli.Streams{In: strings.NewReader(ship), Out: &out, Err: &errOut})
			if text := out.String() + errOut.String(); code != c.code || !strings.Contains(text, c.want) {
				t.Errorf("exit code %d, want %d; output lacks %q:\n%s", code, c.code, c.want, text)
			}
		})
	}
}
