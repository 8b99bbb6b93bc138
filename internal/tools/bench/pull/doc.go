// Package pull measures an agent: its memory and CPU, and how long an object takes to a member with one.
package pull
