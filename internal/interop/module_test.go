package interop

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// modulePath is a path that Go can find, and moduleVersion a release.
const (
	modulePath    = "example.org/you/gorun"
	moduleVersion = "v0.2.0"
)

// TestModule renames the module in a copy, publishes that in a proxy made of files, and uses it from another module.
func TestModule(t *testing.T) {
	t.Parallel()
	proxy := t.TempDir()
	dir := filepath.Join(proxy, modulePath+"@"+moduleVersion)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	environ := os.Environ()
	run := func(words ...string) string {
		t.Helper()
		command := exec.Command(words[0], words[1:]...)
		command.Dir, command.Env = dir, environ
		said, err := command.CombinedOutput()
		require.NoErrorf(t, err, "%s\n%s", command, said)
		return string(said)
	}
	run("sh", "-ec", `(cd "$0" && git ls-files -coz --exclude-standard | tar -cf - --null -T -) | tar -xf -`,
		testneeds.Repository(t))
	rename := func(path string) string {
		return run("sh", "-c", "make --silent module MODULE="+path+" 2>&1 || true")
	}
	require.Contains(t, rename("you/gorun"), `malformed module path "you/gorun": missing dot`)
	require.Contains(t, rename(modulePath), "is "+modulePath+", no longer gorun: ")
	if testneeds.Soak() {
		require.Contains(t, rename("example.org/first"), "is example.org/first, no longer "+modulePath+": ")
		require.Contains(t, rename(modulePath), "is "+modulePath+", no longer example.org/first: ")
		require.NotContains(t, run("go", "list", "-deps", "-test", "./..."), "example.org/first")
	}
	require.Contains(t, rename(modulePath), "is "+modulePath+" already")
	for name, first := range map[string]string{
		"go.mod": "module " + modulePath, "comm/meeting.go": `"gorun/comm/%s`,
		"packaging/spack/package.py": "https://" + modulePath + ".git",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), first)
	}

	run("rm", "-r", ".ci", "packaging") // which have modules of their own
	publish(t, proxy)
	known := strings.TrimSpace(run("go", "env", "GOMODCACHE"))
	environ = append(environ, "GOMODCACHE="+t.TempDir(), "GOSUMDB=off", "GOBIN="+t.TempDir(), "GOPROXY=file://"+proxy+
		",file://"+known+"/cache/download,"+strings.TrimSpace(run("go", "env", "GOPROXY")))
	t.Cleanup(func() { run("go", "clean", "-modcache") }) // its files are read-only
	dir = filepath.Join(dir, "internal/interop/testdata/importer")
	run("go", "mod", "init", "example.com/importer")
	at := "@" + moduleVersion
	run("go", "get", modulePath+"/comm"+at, modulePath+"/env"+at, modulePath+"/launcher"+at)
	if !testneeds.Soak() { // what follows compiles nearly everything
		return
	}
	run("go", "mod", "tidy")
	run("go", "mod", "verify")
	environ = append(environ, "GOFLAGS=")
	run("go", "vet", ".")
	said := run("go", "run", ".")
	require.Contains(t, said, "rank 0 of 2: 3\n")
	require.Contains(t, said, "rank 1 of 2: 3\n")
	dir = t.TempDir()
	run("go", "install", modulePath+"/cmd/gorun"+at)
	gorun := filepath.Join(strings.TrimSpace(run("go", "env", "GOBIN")), "gorun")
	require.True(t, strings.HasPrefix(run(gorun, "version"), "gorun "+moduleVersion+" ("))
	require.Equal(t, "rank 0\n", run(gorun, "-n", "1", "sh", "-c", "echo rank $RANK"))
}

// publish makes of dir, which holds nothing but modulePath@moduleVersion, a proxy: of each release the list, NAME.info,
// NAME.mod and NAME.zip.
func publish(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, modulePath, "@v", moduleVersion)
	mod, err := os.ReadFile(filepath.Join(dir, modulePath+"@"+moduleVersion, "go.mod"))
	require.NoError(t, err)
	var release bytes.Buffer
	archive := zip.NewWriter(&release)
	files := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, _ error) error {
		if entry.IsDir() {
			return nil
		}
		text, err := fs.ReadFile(files, name)
		require.NoError(t, err)
		file, err := archive.Create(name)
		require.NoError(t, err)
		_, err = file.Write(text)
		return err
	}))
	require.NoError(t, archive.Close())
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	for file, text := range map[string][]byte{
		name + ".zip": release.Bytes(), name + ".mod": mod, name + ".info": []byte(`{"Version":"` + moduleVersion + `"}`),
		filepath.Join(filepath.Dir(name), "list"): []byte(moduleVersion),
	} {
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
}
