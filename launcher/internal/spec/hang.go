package spec

import "time"

// Stall are ranks that have waited in the store without progress.
type Stall struct {
	Waited  Seconds     `json:"waited_seconds"` // time without progress
	At      time.Time   `json:"at"`             // when gorun noticed
	Waiting []StoreWait `json:"waiting"`        // ranks that wait, and for which keys
	// Missing are the ranks that did not wait there.
	Missing []Absence `json:"missing,omitempty"`
}

// Hang is a job that has made no progress: no rank printed and nothing changed in the store for Quiet.
type Hang struct {
	Quiet Seconds    `json:"quiet_seconds"`   // time without output and progress
	At    time.Time  `json:"at"`              // when gorun noticed
	Ranks []Activity `json:"ranks,omitempty"` // what each rank did then
}
