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
			ID: "python-differs", Group: "python",
			What: "whether the interpreter has the same version on all hosts",
			Why:  "Pickled objects and compiled packages do not always go from one to the other.",
			Run: versionCheck("Python", Warning, "python3 --version", func(h *Host) string {
				return minor(pythonOf(h).Version)
			}),
		},
		{
			ID: "torch-differs", Group: "python",
			What: "whether PyTorch, the CUDA or ROCm that it is built for, and NumPy are the same on all hosts",
			Why:  "Ranks of two PyTorch versions disagree on what they send: they hang, or fail with a type that is unknown.",
			Run:  torchDiffers,
		},
		{
			ID: "torch-missing", Group: "python",
			What: "whether hosts lack PyTorch that others have",
			Why:  "Ranks there end with 'No module named torch'.",
			Run: func(c *Cluster) []Finding {
				if !c.some(func(h *Host) bool { return h.pkg("torch") != "" }) {
					return nil
				}
				var all []Finding
				for _, h := range c.Hosts {
					if h.pkg("torch") == "" && h.Python != nil && !h.Python.Silent {
						all = append(all, Finding{
							Severity: Warning, Hosts: []string{h.Name}, Text: "PyTorch is not there, and is on others",
							Evidence: "packages of " + h.Python.Path, Fix: "python3 -m pip show torch",
						})
					}
				}
				return all
			},
		},
		{
			ID: "nccl-differs", Group: "python",
			What: "whether NCCL is the same on all hosts",
			Why:  "NCCL refuses to talk to another version: 'Mismatched NCCL version detected'.",
			Run: func(c *Cluster) []Finding {
				severity := Note // nobody uses it without GPUs
				if c.some(func(h *Host) bool { return len(h.Machine.GPUs) > 0 }) {
					severity = Error
				}
				return versionCheck("NCCL", severity, "python3 -c 'import torch; print(torch.cuda.nccl.version())'", ncclVersion)(c)
			},
		},
		{
			ID: "nccl-override", Group: "python",
			What: "whether LD_LIBRARY_PATH has a libnccl that hides PyTorch's own",
			Why:  "The loader takes that one: an older NCCL than PyTorch was built with lacks symbols, or is slower.",
			Run: each(func(h *Host) []Finding {
				p := pythonOf(h)
				own, other := ownNCCL(h), p.NCCL[p.Override]
				if p.Override == "" || own == "" || other == own {
					return nil
				}
				return []Finding{{
					Severity: Warning, Text: fmt.Sprintf("LD_LIBRARY_PATH has NCCL %s, which hides PyTorch's %s",
						cmp.Or(other, "of unknown version"), own), Evidence: p.Override,
					Fix: "unset LD_LIBRARY_PATH # or leave " + shellwords.Quote(dirOf(p.Override)) + " out of it",
				}}
			}),
		},
	}
}

func torchDiffers(c *Cluster) []Finding {
	var all []Finding
	for _, run := range []func(*Cluster) []Finding{
		versionCheck("PyTorch", Error, "python3 -m pip show torch", func(h *Host) string { return h.pkg("torch") }),
		versionCheck("PyTorch's CUDA", Warning, "python3 -c 'import torch; print(torch.version.cuda)'",
			func(h *Host) string {
				return pythonOf(h).CUDA
			}),
		versionCheck("PyTorch's ROCm", Warning, "python3 -c 'import torch; print(torch.version.hip)'",
			func(h *Host) string {
				return pythonOf(h).ROCm
			}),
		versionCheck("NumPy", Note, "python3 -m pip show numpy", func(h *Host) string { return h.pkg("numpy") }),
	} {
		all = append(all, run(c)...)
	}
	return all
}

func dirOf(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// versionCheck tells of hosts on which something has another version than on most.
func versionCheck(name string, severity Severity, show string, version func(*Host) string) func(*Cluster) []Finding {
	return func(c *Cluster) []Finding {
		return c.differing(version, func(h *Host, own, most string, others int) Finding {
			return Finding{
				Severity: severity, Text: fmt.Sprintf("%s is %s, %s %s", name, own, onTheOthers(others), most),
				Evidence: "packages of " + pythonOf(h).Path, Fix: show,
			}
		})
	}
}

func onTheOthers(others int) string { return "on " + theOthers(others) }

func pythonOf(h *Host) Python {
	if h.Python == nil {
		return Python{}
	}
	return *h.Python
}

// pkg is the version of a package.
func (h *Host) pkg(name string) string { return pythonOf(h).Packages[name] }

// ownNCCL is the version of the NCCL that came with PyTorch's packages.
func ownNCCL(h *Host) string {
	for _, name := range slices.Sorted(maps.Keys(pythonOf(h).Packages)) {
		if strings.HasPrefix(name, "nvidia-nccl-") {
			return h.Python.Packages[name]
		}
	}
	return ""
}

// ncclVersion is that of the NCCL that a PyTorch program would load, or C programs where
// there is no PyTorch; "" if nobody knows.
func ncclVersion(h *Host) string {
	p := pythonOf(h)
	if p.Override != "" {
		return p.NCCL[p.Override]
	}
	if own := ownNCCL(h); own != "" {
		return own
	}
	for _, path := range slices.Sorted(maps.Keys(p.NCCL)) {
		return p.NCCL[path]
	}
	return ""
}

// minor is the 3.11 of 3.11.7: of some interpreters no more is known.
func minor(version string) string {
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
