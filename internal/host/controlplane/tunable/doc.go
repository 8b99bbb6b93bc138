// Package tunable has the options of a control plane that may change while it runs. The loops read them at each turn.
package tunable
