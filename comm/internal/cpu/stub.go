//go:build !cgo

package cpu

import (
	"context"
	"errors"

	"gorun/comm/internal/backend"
)

// Backend is unavailable without cgo.
type Backend struct{}

// Run returns an error.
func (*Backend) Run(context.Context, *backend.Call) error {
	return errors.New("this program was built without cgo")
}
