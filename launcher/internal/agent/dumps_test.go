package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/env"
	"gorun/launcher/internal/spec"
	"gorun/launcher/internal/wire"
)

// What flight recorders write on request is collected, but no file from before the job, and no link.
func TestDumps(t *testing.T) {
	j, _ := growableJob(t)
	own := t.TempDir()
	j.start.Dumps = []string{env.VarTorchFRDumpTempFile, env.VarTorchNCCLDebugInfoPipeFile, "LD_PRELOAD"}
	rows := []wire.Row{{}}
	for rank := 1; rank < 4; rank++ {
		mine := []string{env.VarTorchFRDumpTempFile + "=" + own + "/mine"}
		rows = append(rows, wire.Row{Process: spec.Process{Rank: rank}, Env: mine})
	}
	j.roster.Store(&roster{rows: rows})
	j.choosePrivateDir()
	j.prepareDumps()
	begin := filepath.Join(j.privateDir.dir, wire.DumpName)
	want := []string{env.VarTorchFRDumpTempFile + "=" + begin, env.VarTorchNCCLDebugInfoPipeFile + "=" + begin}
	require.Equal(t, want, j.dumps)

	require.NoError(t, os.WriteFile(own+"/mine1", []byte("one"), 0o600))
	require.NoError(t, os.WriteFile(own+"/mine2", []byte("of another job"), 0o600))
	long := time.Now().Add(-24 * time.Hour)
	require.NoError(t, os.Chtimes(own+"/mine2", long, long))
	require.NoError(t, os.Symlink("mine1", own+"/mine3"))
	require.NoError(t, unix.Mkfifo(begin+"0.pipe", 0o600))
	pipe, err := os.OpenFile(begin+"0.pipe", os.O_RDWR, 0)
	require.NoError(t, err)
	defer pipe.Close()
	go func() {
		_, err := pipe.Read(make([]byte, 8))
		assert.NoError(t, err)
		assert.NoError(t, os.WriteFile(begin+"0", []byte("zero"), 0o600))
	}()
	j.requestDumps()
	assert.Equal(t,
		[]wire.File{{Name: wire.DumpName + "0", Text: []byte("zero")}, {Name: wire.DumpName + "1", Text: []byte("one")}},
		j.readDumps(7))
}
