package backend

import "context"

// Exchange sends blob to every rank and returns the blobs of all ranks in rank order. All ranks of the group must call
// it the same number of times.
type Exchange func(ctx context.Context, blob []byte) ([][]byte, error)
