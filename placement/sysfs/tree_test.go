package sysfs

import (
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gorun/placement/sysfs/sysfstest"
)

type fakeTree = sysfstest.Tree

var treeOf = sysfstest.TreeOf

// onDisk writes a tree into a temporary folder, which is removed at the end of the test.
func onDisk(t testing.TB, tree fstest.MapFS) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, sysfstest.OnDisk(dir, tree))
	return dir
}

func itoa(n int) string { return strconv.Itoa(n) }
