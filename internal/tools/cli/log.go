package cli

import (
	"flag"
	"io"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// VerbosityFlag adds the flag --v, which has the value for SetVerbosity.
func VerbosityFlag(f *pflag.FlagSet, level *int) {
	f.IntVar(level, "v", 0, "number for the log level verbosity, as of Kubernetes; 0 to 10")
}

// SetVerbosity sets which messages are logged besides those of level 0, as the flag --v of Kubernetes does.
func SetVerbosity(level int) {
	var verbosity klog.Level
	_ = verbosity.Set(strconv.Itoa(level)) // it is that of the process, and fails only for what is no number
}

// LogTo sends what this process logs to a file, so that the terminal shows only the result of the command.
func LogTo(out io.Writer) {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr":     "false",
		"stderrthreshold": "FATAL",
		"one_output":      "true", // else an error is written once for each severity below it, too
	} {
		_ = flags.Set(name, value) // fails only for a flag that klog does not have
	}
	klog.SetOutput(out)
	ctrllog.SetLogger(klog.NewKlogr())
}
