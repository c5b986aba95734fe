package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/internal/shellwords"
)

func pythonChecks() []Check {
	return []Check{
		{
			"python-differs", "python",
			"whether the interpreter has the same version on all hosts",
			"Pickled objects and compiled packages do not always go from one to the other.",
			versionCheck("Python", Warning, "python3 --version", func(p Python) string { return MinorVersion(p.Version) }),
		},
		{
			"torch-differs", "python",
			"whether PyTorch, the CUDA or ROCm that it is built for, and NumPy are the same on all hosts",
			"Ranks of two PyTorch versions disagree on what they send: they hang, or fail with a type that is unknown.",
			func(c *Cluster) []Finding {
				return slices.Concat(
					versionCheck("PyTorch", Error, "python3 -m pip show torch",
						func(p Python) string { return p.Packages["torch"] })(c),
					versionCheck("PyTorch's CUDA", Warning, "python3 -c 'import torch; print(torch.version.cuda)'",
						func(p Python) string { return p.CUDA })(c),
					versionCheck("PyTorch's ROCm", Warning, "python3 -c 'import torch; print(torch.version.hip)'",
						func(p Python) string { return p.ROCm })(c),
					versionCheck("NumPy", Note, "python3 -m pip show numpy",
						func(p Python) string { return p.Packages["numpy"] })(c))
			},
		},
		{
			"torch-missing", "python",
			"whether hosts lack PyTorch that others have",
			"Ranks there end with 'No module named torch'.",
			func(c *Cluster) []Finding {
				if !c.some(hasTorch) {
					return nil
				}
				return each(func(h *Host) []Finding {
					if hasTorch(h) || h.Python.Path == "" || h.Python.Silent {
						return nil
					}
					return warning("PyTorch is not there, and is on others", "packages of "+h.Python.Path,
						"python3 -m pip show torch")
				})(c)
			},
		},
		{
			"nccl-differs", "python",
			"whether NCCL is the same on all hosts",
			"NCCL refuses to talk to another version: 'Mismatched NCCL version detected'.",
			func(c *Cluster) []Finding {
				severity := Note // nobody uses it without GPUs
				if c.some(func(h *Host) bool { return len(h.Machine.GPUs) > 0 }) {
					severity = Error
				}
				return versionCheck("NCCL", severity, "python3 -c 'import torch; print(torch.cuda.nccl.version())'",
					Python.loadedNCCL)(c)
			},
		},
		{
			"nccl-override", "python",
			"whether LD_LIBRARY_PATH has a libnccl that hides PyTorch's own",
			"The loader takes that one: an older NCCL than PyTorch was built with lacks symbols, or is slower.",
			each(func(h *Host) []Finding {
				p := h.Python
				own, other := p.ownNCCL(), p.NCCL[p.Override]
				if p.Override == "" || own == "" || other == own {
					return nil
				}
				return warning(fmt.Sprintf("LD_LIBRARY_PATH has NCCL %s, which hides PyTorch's %s",
					cmp.Or(other, "of unknown version"), own), p.Override,
					"unset LD_LIBRARY_PATH # or leave "+shellwords.Quote(dirOf(p.Override))+" out of it")
			}),
		},
	}
}

func dirOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// versionCheck tells of hosts on which something has another version than on most.
func versionCheck(name string, severity Severity, show string, version func(Python) string) func(*Cluster) []Finding {
	return func(c *Cluster) []Finding {
		return c.differing(func(h *Host) string { return version(h.Python) },
			func(h *Host, own, most, others string) []Finding {
				return finding(severity, fmt.Sprintf("%s is %s, on %s %s", name, own, others, most),
					"packages of "+h.Python.Path, show)
			})
	}
}

func hasTorch(h *Host) bool { return h.Python.Packages["torch"] != "" }

// ownNCCL is the version of the NCCL that came with PyTorch's packages.
func (p Python) ownNCCL() string {
	for _, name := range slices.Sorted(maps.Keys(p.Packages)) {
		if strings.HasPrefix(name, "nvidia-nccl-") {
			return p.Packages[name]
		}
	}
	return ""
}

// loadedNCCL is the version of the NCCL that a PyTorch program would load, or C programs where
// there is no PyTorch; "" if nobody knows.
func (p Python) loadedNCCL() string {
	if p.Override != "" {
		return p.NCCL[p.Override]
	}
	if own := p.ownNCCL(); own != "" || len(p.NCCL) == 0 {
		return own
	}
	return p.NCCL[slices.Min(slices.Collect(maps.Keys(p.NCCL)))]
}

// MinorVersion is the 3.11 of 3.11.7: of some interpreters no more is known.
func MinorVersion(version string) string {
	words := strings.SplitN(version, ".", 3)
	return strings.Join(words[:min(2, len(words))], ".")
}

// before compares a version's first two numbers.
func before(version string, major, minor int) bool {
	words := strings.SplitN(version, ".", 3)
	if len(words) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(words[0])
	b, err2 := strconv.Atoi(words[1])
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}
