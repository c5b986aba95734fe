package backend

import "context"

// Exchange gives every rank's blob to every rank, in rank order. All ranks of the group call it, equally often.
type Exchange func(ctx context.Context, blob []byte) ([][]byte, error)
