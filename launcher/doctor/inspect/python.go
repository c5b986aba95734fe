package inspect

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"gorun/launcher/doctor"
)

// pythonTimeout is for an interpreter to print its package directories.
const pythonTimeout = 2 * time.Second

const printDirs = "import sys; print('python', sys.version.split()[0]); print('\\n'.join(p for p in sys.path if p))"

// python finds the interpreter and the versions of the packages that must agree. It imports none: that takes seconds.
func (in *inspector) python(h *doctor.Host) {
	if in.findPython(&h.Python); h.Python.Silent {
		h.Unknown = []string{fmt.Sprintf("Python's packages: %s said nothing within %s", h.Python.Path, pythonTimeout)}
	}
}

func (in *inspector) findPython(p *doctor.Python) {
	at := cmp.Or(in.Python, in.firstIn(in.dirsIn("PATH"), "python3"))
	if at == "" || !in.exists(at) {
		return
	}
	*p = doctor.Python{Path: at, Packages: map[string]string{}, NCCL: map[string]string{}}
	dirs := in.packageDirs(p)
	if len(dirs) == 0 && in.System != nil {
		dirs = in.askPython(p)
	}
	for _, dir := range append(in.dirsIn("PYTHONPATH"), dirs...) {
		in.packages(p, strings.TrimPrefix(dir, "/"))
	}
	in.nccl(p, dirs)
}

// dirsIn returns the directories in a variable such as PATH.
func (in *inspector) dirsIn(variable string) (dirs []string) {
	for dir := range strings.SplitSeq(in.Getenv(variable), ":") {
		if path.IsAbs(dir) {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	return dirs
}

// firstIn returns the path of a file in the first directory that has it; "" if none does.
func (in *inspector) firstIn(dirs []string, name string) string {
	for _, dir := range dirs {
		if at := path.Join(dir, name); in.exists(at) {
			return at
		}
	}
	return ""
}

// packageDirs derives an interpreter's package directories from its path: of a virtual environment, conda or the
// system. It sets the version as far as it is known.
func (in *inspector) packageDirs(p *doctor.Python) (dirs []string) {
	bin := path.Dir(p.Path)
	prefix := path.Dir(bin)
	if config := in.text(prefix + "/pyvenv.cfg"); config != "" {
		p.Version = cmp.Or(fieldOf(config, "version", "="), fieldOf(config, "version_info", "="))
		return in.libraryDirs(prefix, doctor.MinorVersion(p.Version))
	}
	real := in.resolve(p.Path) // python3 may link to python3.11
	minor, ok := strings.CutPrefix(path.Base(real), "python")
	if !ok || !strings.Contains(minor, ".") || strings.Trim(minor, "0123456789.") != "" {
		return nil
	}
	p.Version = minor
	for _, prefix := range []string{path.Dir(path.Dir(real)), prefix} {
		header := in.text(prefix + "/include/python" + minor + "/patchlevel.h")
		if _, version, known := strings.Cut(header, "#define PY_VERSION "); known {
			p.Version, _, _ = strings.Cut(strings.TrimLeft(version, " \t\""), `"`)
		}
		dirs = append(dirs, in.libraryDirs(prefix, minor)...)
	}
	if home := in.Getenv("HOME"); path.IsAbs(home) {
		dirs = append(in.libraryDirs(home+"/.local", minor), dirs...)
	}
	return dirs
}

// resolve follows the links of a name's last element.
func (in *inspector) resolve(name string) string {
	for range 8 {
		target, err := fs.ReadLink(in.Root, strings.TrimPrefix(name, "/"))
		if err != nil {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = target
	}
	return name
}

func (in *inspector) libraryDirs(prefix, minor string) (dirs []string) {
	for _, dir := range []string{
		"/lib/python" + minor + "/site-packages", "/lib64/python" + minor + "/site-packages", "/local/lib/python" + minor +
			"/dist-packages", "/lib/python3/dist-packages",
	} {
		if in.exists(prefix + dir) {
			dirs = append(dirs, prefix+dir)
		}
	}
	return dirs
}

// askPython runs the interpreter to get its package directories, such as if it is a wrapper script.
func (in *inspector) askPython(p *doctor.Python) (dirs []string) {
	ctx, cancel := context.WithTimeout(in.ctx, pythonTimeout)
	defer cancel()
	out, err := in.System.Python(ctx, p.Path, printDirs)
	if err != nil {
		p.Silent = ctx.Err() != nil
		return nil
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if version, ok := strings.CutPrefix(line, "python "); ok {
			p.Version = version
		} else if path.IsAbs(line) && path.Clean(line) != "/" {
			dirs = append(dirs, path.Clean(line))
		}
	}
	return dirs
}

// wanted reports whether the version of a package must agree.
func wanted(name string) bool {
	return name == "torch" || name == "numpy" || name == "mpi4py" || name == "jaxlib" ||
		strings.HasPrefix(name, "nvidia-nccl-")
}

// packages reads versions from the names of *.dist-info. The first directory with a package takes precedence.
func (in *inspector) packages(p *doctor.Python, dir string) {
	for _, entry := range in.list(dir) {
		name, version, ok := parseDistribution(entry)
		if !ok || !in.all && !wanted(name) || p.Packages[name] != "" {
			continue
		}
		p.Packages[name] = version
		if name == "mpi4py" && in.all {
			for _, file := range in.list(dir + "/mpi4py") {
				if strings.HasPrefix(file, "MPI") && strings.HasSuffix(file, ".so") {
					p.Packages["MPI"] = cmp.Or(p.Packages["MPI"], in.mpi(dir+"/mpi4py/"+file))
				}
			}
		}
		if name == "torch" {
			text := in.text(dir + "/torch/version.py")
			p.CUDA, p.ROCm = pythonString(text, "cuda"), pythonString(text, "hip")
		}
	}
}

// parseDistribution reads "nvidia_nccl_cu12-2.27.3.dist-info".
func parseDistribution(entry string) (name, version string, ok bool) {
	base, ok := strings.CutSuffix(entry, ".dist-info")
	if !ok {
		if base, ok = strings.CutSuffix(entry, ".egg-info"); !ok {
			return "", "", false
		}
	}
	name, version, ok = strings.Cut(base, "-")
	version, _, _ = strings.Cut(version, "-")
	return strings.ReplaceAll(strings.ToLower(name), "_", "-"), version, ok && name != "" && version != ""
}

// pythonString returns the value in a line like "cuda: Optional[str] = '12.8'".
func pythonString(text, name string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		variable, _, _ := strings.Cut(key, ":")
		if ok && strings.TrimSpace(variable) == name {
			value = strings.TrimSpace(value)
			if inner := strings.Trim(value, `'"`); inner != value {
				return inner
			}
			return ""
		}
	}
	return ""
}

// loaderDirs returns the dynamic loader's directories, without LD_LIBRARY_PATH.
func (in *inspector) loaderDirs() (dirs []string) {
	for _, name := range in.list("etc/ld.so.conf.d") {
		for line := range strings.Lines(in.text("etc/ld.so.conf.d/" + name)) {
			if line = strings.TrimSpace(line); path.IsAbs(line) {
				dirs = append(dirs, path.Clean(line))
			}
		}
	}
	return append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64",
		"/usr/local/lib", "/usr/local/cuda/lib64", "/opt/mellanox/sharp/lib")
}

// nccl finds NCCL libraries other than PyTorch's own.
func (in *inspector) nccl(p *doctor.Python, packages []string) {
	find := func(dirs []string) string {
		at := in.firstIn(dirs, "libnccl.so.2")
		if at != "" {
			p.NCCL[at] = NCCLVersion(in.Root, at)
		}
		return at
	}
	find(in.loaderDirs())
	own := find(in.dirsIn("LD_LIBRARY_PATH"))
	if !slices.ContainsFunc(packages, func(dir string) bool {
		return strings.HasPrefix(own, dir+"/") || in.torchPrefersOwn(dir)
	}) {
		p.Override = own
	}
}

// torchPrefersOwn reports whether the PyTorch in a package directory names that of NCCL by DT_RPATH, which precedes
// LD_LIBRARY_PATH, as its wheels do. DT_RUNPATH does not.
func (in *inspector) torchPrefersOwn(dir string) (prefers bool) {
	in.openELF(dir+"/torch/lib/libtorch_cuda.so", func(library *elf.File) {
		paths, _ := library.DynString(elf.DT_RPATH)
		prefers = strings.Contains(strings.Join(paths, ":"), "/nvidia/nccl/lib")
	})
	return prefers
}

// openELF calls read with a file if it is an ELF file.
func (in *inspector) openELF(name string, read func(*elf.File)) {
	f, err := in.Root.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return
	}
	defer f.Close()
	reader, _ := f.(io.ReaderAt)
	if file, err := elf.NewFile(reader); err == nil {
		read(file)
	}
}

// libraries finds the fabric libraries.
func (in *inspector) libraries(h *doctor.Host) {
	h.Libraries = map[string]string{}
	dirs := append(in.dirsIn("LD_LIBRARY_PATH"), in.loaderDirs()...)
	cache, _ := fs.ReadFile(in.Root, "etc/ld.so.cache") // has the names of all known libraries
	for _, name := range doctor.FabricLibraries {
		if at := in.firstIn(dirs, name); at != "" {
			h.Libraries[name] = at
		} else if bytes.Contains(cache, []byte(name+"\x00")) {
			h.Libraries[name] = "/etc/ld.so.cache"
		}
	}
}

// Versions returns the versions of what a program uses, as far as files below root say, without starting anything: of
// "Python" and its packages by their lower-case names, such as "torch", and the file of "MPI". getenv has the library
// paths.
func Versions(root fs.FS, program string, getenv func(string) string) map[string]string {
	in := &inspector{Config: Config{Root: root, Getenv: getenv, Python: program}, all: true}
	p := doctor.Python{Packages: map[string]string{}}
	if strings.HasPrefix(path.Base(program), "python") {
		in.findPython(&p)
		p.Packages["Python"], p.Packages["PyTorch's CUDA"] = p.Version, p.CUDA
		for file, version := range p.NCCL {
			p.Packages[file] = version
		}
	} else {
		p.Packages["MPI"] = in.mpi(program)
	}
	maps.DeleteFunc(p.Packages, func(_, version string) bool { return version == "" })
	return p.Packages
}

// mpi returns the MPI library that a file links, whose name has a version; "" if it links none.
func (in *inspector) mpi(name string) (found string) {
	in.openELF(name, func(program *elf.File) {
		libraries, _ := program.ImportedLibraries()
		at := slices.IndexFunc(libraries, func(name string) bool { return strings.HasPrefix(name, "libmpi") })
		if at < 0 {
			return
		}
		dirs := in.dirsIn("LD_LIBRARY_PATH")
		for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
			paths, _ := program.DynString(tag)
			for _, dir := range strings.Split(strings.Join(paths, ":"), ":") {
				dirs = append(dirs, path.Clean(strings.ReplaceAll(dir, "$ORIGIN", path.Dir(name))))
			}
		}
		found = cmp.Or(in.resolve(in.firstIn(append(dirs, in.loaderDirs()...), libraries[at])), libraries[at])
	})
	return found
}

// NCCLVersion returns the version of an NCCL library, from its file name (libnccl.so.2.27.3) or the Python package
// beside it; "" if unknown.
func NCCLVersion(root fs.FS, file string) string {
	name := strings.TrimPrefix(file, "/")
	if target, err := fs.ReadLink(root, name); err == nil {
		file = target
	}
	if _, text, ok := strings.Cut(path.Base(file), "libnccl.so."); ok && strings.Count(text, ".") == 2 {
		return text
	}
	place, err := fs.Sub(root, path.Join(path.Dir(name), "../../.."))
	if err != nil {
		return ""
	}
	packages, _ := fs.Glob(struct{ fs.FS }{place}, "nvidia_nccl_cu*.dist-info")
	for _, p := range packages {
		text := strings.TrimSuffix(path.Base(p), ".dist-info")
		return text[strings.LastIndexByte(text, '-')+1:]
	}
	return ""
}
