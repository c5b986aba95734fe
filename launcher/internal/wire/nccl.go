package wire

// Adapters asks, empty, a node with a running job for its adapters that NCCL could use, and answers with them.
type Adapters struct {
	// RDMA are ports of RDMA devices that are up: "mlx5_0 (InfiniBand, 400 Gb/s)".
	RDMA []string
}

// Type is the type of the frame.
func (*Adapters) Type() Type { return TypeAdapters }

func (m *Adapters) fields(c *coder) { c.texts(1, &m.RDMA) }
