//go:build !cgo

package cpu

import (
	"context"
	"errors"

	"gorun/comm/internal/backend"
)

// Backend cannot be had without cgo.
type Backend struct{}

// Run says that it needs cgo.
func (*Backend) Run(context.Context, *backend.Call) error {
	return errors.New("this program was built without cgo")
}
