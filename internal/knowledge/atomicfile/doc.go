// Package atomicfile writes files that a reader finds complete at all times: keys, certificates, kubeconfigs, records.
package atomicfile
