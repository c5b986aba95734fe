package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinkedVersionWins(t *testing.T) {
	Version = "v1.2.3"
	defer func() { Version = "" }()
	require.Equal(t, "v1.2.3", String())
	require.Regexp(t, `^gorun v1\.2\.3 \(linux/(amd64|arm64), go1\.\S+.*\)$`, Line())
}

func TestFromBuild(t *testing.T) {
	settings := func(pairs ...string) (all []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return all
	}
	for want, info := range map[string]debug.BuildInfo{
		"v0.3.0": {Main: debug.Module{Version: "v0.3.0"}},
		"0123456789ab": {
			Main: debug.Module{Version: "(devel)"}, Settings: settings("vcs.revision", "0123456789abcdef", "vcs.modified",
				"false"),
		},
		"0123456789ab-dirty": {Settings: settings("vcs.revision", "0123456789abcdef", "vcs.modified", "true")},
		"unknown":            {Settings: settings("vcs.modified", "true")},
	} {
		require.Equal(t, want, fromBuild(&info))
	}
}

func TestStringIsNeverEmpty(t *testing.T) { require.NotEmpty(t, String()) }
