// Package version knows which gorun this is.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is set by the Makefile through the linker; it is empty in a program
// that `go build` or `go install` made.
var Version string

// String returns the version, with the revision where only that is known.
func String() string {
	if Version != "" {
		return Version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return fromBuild(info)
}

// fromBuild finds the version in what the Go toolchain noted: the module's
// version after `go install`, the revision after `go build` in a checkout.
func fromBuild(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return "unknown"
	}
	return revision + dirty
}

// Line returns what --version prints: the version, the platform, and the Go
// release that built it.
func Line() string {
	return "gorun " + String() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version() + ")"
}
