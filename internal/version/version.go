// Package version has the version of gorun.
package version

import (
	"runtime"
	"runtime/debug"
)

// Version is set by the Makefile through the linker. It is empty after `go build` and `go install`.
var Version string

// String returns the version, or the revision if only that is known.
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

// fromBuild returns the module's version after `go install`, and the revision after `go build` in a checkout.
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

// Line returns the version, the platform and the Go release, as --version prints them.
func Line() string {
	return "gorun " + String() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version() + ")"
}
