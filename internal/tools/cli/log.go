package cli

import (
	"flag"
	"io"

	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

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
