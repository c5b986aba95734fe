package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorun/env/nccl"
	"gorun/internal/shellwords"
)

func pythonChecks() []Check {
	return []Check{
		{
			"python-differs", "python",
			"whether the interpreter has the same version on all hosts",
			"Pickled objects and compiled packages may not work with another version.",
			versionCheck("Python", Warning, "python3 --version", func(p Python) string { return MinorVersion(p.Version) }),
		},
		{
			"torch-differs", "python",
			"whether PyTorch, the CUDA or ROCm that it is built for, and NumPy are the same on all hosts",
			"Ranks of two PyTorch versions use different messages: they hang, or fail with an unknown type.",
			func(c *Cluster, r report) {
				versionCheck("PyTorch", Error, "python3 -m pip show torch",
					func(p Python) string { return p.Packages["torch"] })(c, r)
				versionCheck("PyTorch's CUDA", Warning, "python3 -c 'import torch; print(torch.version.cuda)'",
					func(p Python) string { return p.CUDA })(c, r)
				versionCheck("PyTorch's ROCm", Warning, "python3 -c 'import torch; print(torch.version.hip)'",
					func(p Python) string { return p.ROCm })(c, r)
				versionCheck("NumPy", Note, "python3 -m pip show numpy",
					func(p Python) string { return p.Packages["numpy"] })(c, r)
			},
		},
		{
			"torch-missing", "python",
			"whether hosts lack PyTorch that others have",
			"Ranks there fail with 'No module named torch'.",
			func(c *Cluster, r report) {
				someHave := c.any(hasTorch)
				each(func(h *Host, r report) {
					if someHave && !hasTorch(h) && h.Python.Path != "" && !h.Python.Silent {
						r.warn("PyTorch is missing, but other hosts have it", "packages of "+h.Python.Path,
							"python3 -m pip show torch")
					}
				})(c, r)
			},
		},
		{
			"nccl-differs", "python",
			"whether NCCL is the same on all hosts",
			"NCCL refuses to connect to another version: 'Mismatched NCCL version detected'.",
			func(c *Cluster, r report) {
				severity := Note // unused without GPUs
				if c.any(func(h *Host) bool { return len(h.Machine.GPUs) > 0 }) {
					severity = Error
				}
				versionCheck("NCCL", severity, "python3 -c 'import torch; print(torch.cuda.nccl.version())'",
					Python.loadedNCCL)(c, r)
			},
		},
		{
			"nccl-override", "python",
			"whether LD_LIBRARY_PATH has a libnccl that hides PyTorch's own",
			"The loader prefers it. An older NCCL than PyTorch's lacks symbols or is slower.",
			each(func(h *Host, r report) {
				p := h.Python
				own, other := p.ownNCCL(), p.NCCL[p.Override]
				if p.Override != "" && own != "" && other != own {
					r.warn(fmt.Sprintf("LD_LIBRARY_PATH has NCCL %s, which hides PyTorch's %s",
						cmp.Or(other, "of unknown version"), own), p.Override,
						"unset LD_LIBRARY_PATH # or leave "+shellwords.Quote(dirOf(p.Override))+" out of it")
				}
			}),
		},
	}
}

func dirOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// versionCheck reports hosts on which something has another version than on most.
func versionCheck(name string, severity Severity, show string, version func(Python) string) func(*Cluster, report) {
	return func(c *Cluster, r report) {
		of := func(h *Host) string { return version(h.Python) }
		differing(c, r, of, func(h *Host, r report, own, most, others string) {
			r.add(severity, fmt.Sprintf("%s is %s, on %s %s", name, own, others, most), "packages of "+h.Python.Path, show)
		})
	}
}

func hasTorch(h *Host) bool { return h.Python.Packages["torch"] != "" }

// ownNCCL returns the version of the NCCL that PyTorch's packages include, or "".
func (p Python) ownNCCL() string {
	for _, name := range slices.Sorted(maps.Keys(p.Packages)) {
		if strings.HasPrefix(name, "nvidia-nccl-") {
			return p.Packages[name]
		}
	}
	return ""
}

// loadedNCCL returns the version of the NCCL that a PyTorch program would load, or a C program if there is no PyTorch;
// "" if it is unknown.
func (p Python) loadedNCCL() string {
	if p.Override != "" {
		return p.NCCL[p.Override]
	}
	if own := p.ownNCCL(); own != "" || len(p.NCCL) == 0 {
		return own
	}
	return p.NCCL[slices.Min(slices.Collect(maps.Keys(p.NCCL)))]
}

// MinorVersion returns the 3.11 of 3.11.7. Of some interpreters no more is known.
func MinorVersion(version string) string {
	words := strings.SplitN(version, ".", 3)
	return strings.Join(words[:min(2, len(words))], ".")
}

// before reports whether a version's first two numbers are smaller.
func before(version string, major, minor int) bool {
	v, err := nccl.ParseVersion(version)
	return err == nil && v.Compare(nccl.Version{Major: major, Minor: minor}) < 0
}
