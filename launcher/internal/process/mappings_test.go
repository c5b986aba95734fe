package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gorun/launcher/internal/process"
)

func TestMappedFilesAreFoundByName(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "libmapped here.so.12"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(4096))
	region, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(region)) }()

	assert.Equal(t, "libmapped here.so.12", process.Mapped(os.Getpid(), "libother", "libmapped"))
	assert.Equal(t, file.Name(), process.MappedPath(os.Getpid(), "libother", "libmapped"))
	assert.Empty(t, process.Mapped(os.Getpid(), "mapped here"), "a name is not found by its middle")
	assert.Empty(t, process.Mapped(-1, "lib"))

	dir := filepath.Dir(file.Name()) + "/"
	assert.Equal(t, []string{file.Name()}, process.MappedIn(os.Getpid(), dir, "libmapped"))
	assert.Empty(t, process.MappedIn(os.Getpid(), "/dev/shm/", "libmapped"))
	require.NoError(t, os.Remove(file.Name()))
	assert.Empty(t, process.MappedIn(os.Getpid(), dir, "libmapped"), "it has no name any more")
}
