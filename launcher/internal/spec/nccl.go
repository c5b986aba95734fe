package spec

// NCCLSummary is in what way some ranks communicate.
type NCCLSummary struct {
	Text        string  `json:"text"` // "NCCL 2.30.7 over NVLink P2P, 16 channels"
	Ranks       []int   `json:"ranks"`
	InitSeconds float64 `json:"init_s,omitempty"` // that making a communicator took the slowest of them
	// Alone says that there is no more than a version, which one rank says for all.
	VersionOnly bool `json:"-"`
}

// NCCLWarning is a warning that some ranks got.
type NCCLWarning struct {
	Text  string `json:"text"` // as the first of them said it
	Ranks []int  `json:"ranks"`
	Times int    `json:"times"` // in all
}
