// Package gather reads what the checks of a control plane judge, with the rights of the caller and in bounded time.
package gather
