package inspect

import (
	"bytes"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gorun/env"
	"gorun/launcher/doctor"
)

const (
	maxProcesses = 20_000 // that are read
	maxOrphans   = 200    // that are reported
)

// process is a process in /proc.
type process struct {
	pid, parent int
	name        string
	jobs        []string // IDs in its GORUN_JOB, the innermost last
}

// processes finds the orphans of dead jobs, and NVIDIA's fabric manager.
func (in *inspector) processes(h *doctor.Host) {
	all := map[int]process{}
	for _, name := range in.list("proc") {
		pid, err := strconv.Atoi(name)
		if err != nil || len(all) == maxProcesses || in.ctx.Err() != nil {
			continue
		}
		p, ok := parseStat(in.text("proc/" + name + "/stat"))
		if !ok {
			continue
		}
		p.pid = pid
		if p.name == "nv-fabricmanage" { // the kernel keeps 15 characters
			in.fabricManager.Store(true)
		}
		p.jobs = in.jobsOf(pid)
		all[pid] = p
	}
	h.Orphans = orphans(all)
	for i := range h.Orphans {
		o := &h.Orphans[i]
		o.UID, _ = strconv.Atoi(strings.Fields(fieldOf(in.text("proc/"+strconv.Itoa(o.PID)+"/status"), "Uid", ":") +
			" -1")[0])
	}
	h.ShmFiles = in.shmFiles(all)
	h.ProcessesKnown = in.ctx.Err() == nil && len(all) > 0 // without /proc the list is empty
}

// parseStat reads the name and parent from /proc/PID/stat. The name may contain blanks and parentheses; it ends at the
// last one of the line.
func parseStat(line string) (p process, ok bool) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return p, false
	}
	words := strings.Fields(line[end+1:])
	if len(words) < 2 || words[0] == "Z" {
		return p, false
	}
	p.name = line[open+1 : end]
	parent, err := strconv.Atoi(words[1])
	p.parent = parent
	return p, err == nil
}

// jobsOf returns the IDs of the jobs that a process belongs to.
func (in *inspector) jobsOf(pid int) []string {
	text, err := fs.ReadFile(in.Root, "proc/"+strconv.Itoa(pid)+"/environ")
	if err != nil {
		return nil
	}
	for assignment := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(assignment, []byte(env.VarJob+"=")); ok && len(value) > 0 {
			return strings.Split(string(value), ":")
		}
	}
	return nil
}

// launchers are the names of launchers that may be a container's first process.
var launchers = []string{"gorun", "torchrun", "mpirun", "mpiexec", "orterun", "prterun"}

// orphans returns the processes of jobs without any process that still has a launcher as an ancestor. The first
// ancestor outside of a job is its launcher or agent or, once that is gone, the process that adopts orphans.
func orphans(all map[int]process) (orphans []doctor.Process) {
	alive := map[string]bool{}
	for _, p := range all {
		if len(p.jobs) == 0 {
			continue
		}
		job := p.jobs[len(p.jobs)-1]
		if hasLauncher(all, p, job) {
			alive[job] = true
		}
	}
	for _, p := range all {
		if len(p.jobs) > 0 && !alive[p.jobs[len(p.jobs)-1]] {
			orphans = append(orphans, doctor.Process{PID: p.pid, Name: p.name, Job: p.jobs[len(p.jobs)-1]})
		}
	}
	slices.SortFunc(orphans, func(a, b doctor.Process) int { return a.PID - b.PID })
	return orphans[:min(len(orphans), maxOrphans)]
}

// hasLauncher reports whether the first ancestor of p outside of its job is one that started it.
func hasLauncher(all map[int]process, p process, job string) bool {
	for range 1000 { // deeper than any tree
		above, known := all[p.parent]
		switch {
		case p.parent == 0: // the first of a container, or entered from outside
			return true
		case !known:
			return p.parent != 1
		case slices.Contains(above.jobs, job):
			p = above
		case above.pid == 1:
			return slices.Contains(launchers, above.name)
		default:
			return above.name != "systemd" // a user's systemd adopts orphans, too
		}
	}
	return true
}

// shmPrefixes are name prefixes of files in /dev/shm of NCCL, RCCL, Python, PyTorch, Open MPI, UCX, MPICH and gorun.
var shmPrefixes = []string{
	"nccl-", "rccl-", "psm_", "pymp-", "torch_", "vader_segment.", "sm_segment.", "ucx_shm_",
	"mpich_shar_tmp", "gorun-",
}

// shmFiles returns such files that no process uses. Only root sees what other users' processes use; others get only
// their own files.
func (in *inspector) shmFiles(all map[int]process) (files []doctor.ShmFile) {
	const young = time.Minute // may not be mapped yet
	uid, _ := in.System.UID()
	sizes := map[string]int64{}
	entries, _ := fs.ReadDir(in.Root, "dev/shm")
	for _, e := range entries {
		if !slices.ContainsFunc(shmPrefixes, func(p string) bool { return strings.HasPrefix(e.Name(), p) }) {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < young {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && uid != 0 && int(stat.Uid) != uid {
			continue
		}
		sizes[e.Name()] = info.Size()
	}
	if len(sizes) == 0 {
		return nil
	}
	for pid := range all {
		if in.ctx.Err() != nil {
			return nil // the rest may be used
		}
		in.removeUsed(pid, sizes)
	}
	for name, size := range sizes {
		files = append(files, doctor.ShmFile{Name: name, Size: size})
	}
	slices.SortFunc(files, func(a, b doctor.ShmFile) int { return strings.Compare(a.Name, b.Name) })
	return files[:min(len(files), maxOrphans)]
}

// removeUsed removes the files that a process has mapped or open.
func (in *inspector) removeUsed(pid int, sizes map[string]int64) {
	const where = "/dev/shm/"
	used := func(path string) {
		if name, ok := strings.CutPrefix(path, where); ok {
			delete(sizes, name)
		}
	}
	dir := "proc/" + strconv.Itoa(pid)
	for line := range strings.Lines(in.text(dir + "/maps")) {
		if at := strings.Index(line, where); at >= 0 {
			used(strings.TrimSpace(line[at:]))
		}
	}
	for _, fd := range in.list(dir + "/fd") {
		if target, err := fs.ReadLink(in.Root, dir+"/fd/"+fd); err == nil {
			used(target)
		}
	}
}
