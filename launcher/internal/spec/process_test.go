package spec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPython(t *testing.T) {
	for line, want := range map[string]int{
		"python train.py": 1, "python3.11 -u train.py -m x": 2, "python -X dev -W error -Xfrozen_modules=off -m pkg": 6,
		"python -B -c pass": 2, "python --check-hash-based-pycs never a.py": 3, "python": 0, "python -m": 0, "python -": 0,
		"python -i train.py": 0, "python -um pkg": 0, "python -V": 0, "bash train.py": 0, "./train.py": 0,
	} {
		argv := strings.Fields(line)
		app := App{Path: "/usr/bin/" + argv[0], Argv: argv}
		require.Equal(t, want, app.Python(), line)
	}
}
