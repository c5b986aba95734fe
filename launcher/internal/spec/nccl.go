package spec

// NCCLSummary describes how some ranks communicate.
type NCCLSummary struct {
	Text        string  `json:"text"`                   // "NCCL 2.30.7 over NVLink P2P, 16 channels"
	Ranks       []int   `json:"ranks"`                  // ranks to which the text applies
	InitSeconds float64 `json:"init_seconds,omitempty"` // the time that the slowest of them took to make a communicator
	// VersionOnly reports that Text has no more than a version, which one rank logs for all.
	VersionOnly bool `json:"-"`
}

// NCCLWarning is a warning of NCCL in the output of some ranks.
type NCCLWarning struct {
	Text  string `json:"text"`  // of its first occurrence
	Ranks []int  `json:"ranks"` // ranks that printed it
	Times int    `json:"count"` // in all
}
