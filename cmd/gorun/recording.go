package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gorun/cmd/gorun/internal/dialect"
	"gorun/cmd/gorun/internal/show"
	"gorun/cmd/gorun/internal/threads"
	"gorun/env/plan"
	"gorun/internal/printable"
	"gorun/internal/version"
	"gorun/launcher"
	"gorun/launcher/doctor/inspect"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
	"gorun/placement"
)

// recordsDir has the records of the user's jobs; "" if there is no place for them.
func recordsDir() string {
	hosts := quarantineFile()
	if hosts == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(hosts), "jobs")
}

// recordDelay is how long lines of a record wait for others. The first ones wait until ranks run: no start waits for
// them, and even a short job has time then.
const recordDelay = 50 * time.Millisecond

// recordLimit is how long the end of a job may wait for a slow disk.
const recordLimit = time.Second

// recorder writes the record of a job.
type recorder struct {
	verbose bool
	member  bool // of a job whose record another node's gorun keeps, unless this one plans it
	began   time.Time
	stream  *record.Stream // nil for no record
	begun   sync.Once
	events  *record.Stream // nil without --events
	id      string
	hosts   []string          // of the last plan in the record; nil: it has none
	masker  *strings.Replacer // of what is recorded
	lines   []registry.Line   // the last ones of the ranks

	programs []job.AppRun // whose versions are recorded

	evidence jobEvidence
}

// newRecorder takes when gorun started.
func newRecorder(inv *dialect.Invocation, began time.Time) *recorder {
	r := &recorder{verbose: inv.Verbose > 0, began: began}
	j := inv.Spec.Join
	r.member = j != nil && (j.NodeRank != 0 || j.Task != nil && j.Task.Rank > 0)
	if !inv.Unrecorded {
		r.stream = &record.Stream{Delay: recordDelay, Bounded: true}
	}
	r.add("record", func() any {
		threads.ReserveStack()
		start := record.Start{
			Command: plan.HideSecrets(os.Args), PID: os.Getpid(), Began: began, Versions: map[string]string{},
		}
		start.Dir, _ = os.Getwd()
		start.Host, _ = os.Hostname()
		for _, program := range r.programs {
			path := program.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(cmp.Or(program.Dir, start.Dir), path)
			}
			maps.Copy(start.Versions, inspect.Versions(os.DirFS("/"), path, os.Getenv))
		}
		start.Versions["gorun"], start.Versions["go"] = version.String(), runtime.Version()
		addKernelVersions(start.Versions)
		return start
	})
	r.emit(r.started())
	return r
}

// addKernelVersions adds what the kernel knows at no cost.
func addKernelVersions(versions map[string]string) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		versions["Linux"] = unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		versions["NVIDIA driver"] = strings.TrimSpace(string(text))
	}
}

func (r *recorder) started() record.Event { return record.Event{At: r.began, Event: record.JobStarted} }

// add adds a line, whose fields are known when it is written.
func (r *recorder) add(kind string, fields func() any) {
	if r.stream == nil {
		return
	}
	r.stream.Add(func(w io.Writer) error {
		var line strings.Builder
		err := show.Line(&line, kind, fields())
		if err == nil {
			_, err = io.WriteString(w, r.masker.Replace(line.String()))
		}
		return err
	})
}

func (r *recorder) emit(e record.Event) {
	r.add("event", func() any { return e })
	if e.Event == record.RankStarted && r.stream != nil {
		r.begun.Do(r.stream.Hurry)
	}
	if r.events != nil {
		r.events.Add(func(w io.Writer) error { return show.Line(w, "event", e) })
	}
}

// sendEvents implements --events.
func (r *recorder) sendEvents(to string) error {
	if to == "" {
		return nil
	}
	f, err := openEvents(to)
	if err != nil {
		return optionError("--events", err)
	}
	r.events = new(record.Stream)
	r.events.Start(func() (io.WriteCloser, error) { return f, nil })
	r.events.Add(func(w io.Writer) error { return show.Line(w, "event", r.started()) })
	return nil
}

func openEvents(to string) (*os.File, error) {
	fd, number := 1, ""
	if to != "-" {
		var isNumber bool
		if number, isNumber = strings.CutPrefix(to, "fd:"); !isNumber {
			// #nosec G302 -- the umask is the user's choice
			f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
			if err != nil {
				return nil, printable.Unwritten(to, err)
			}
			return f, nil
		}
		var err error
		if fd, err = strconv.Atoi(number); err != nil {
			return nil, err
		}
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY || st.Mode&unix.S_IFMT == 0 { // such as an epoll instance
		return nil, fmt.Errorf("%s is not open for writing", to)
	}
	fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) // a broken pipe at 1 would kill this process
	return os.NewFile(uintptr(fd), to), err
}

// listen adds what is recorded to the launcher's options.
func (r *recorder) listen(o *launcher.Options) {
	if r.stream == nil && r.events == nil {
		return
	}
	o.Events, o.LastLines = r.emit, func(lines []registry.Line) { r.lines = lines }
	if r.stream != nil {
		o.Evidence = r.evidence.begin
	}
}

// maxRecordedRanks is how many ranks have their own variables in a record.
const maxRecordedRanks = 64

// planned begins the record's file, as the job has an id now. Later plans are recorded if they are for other hosts.
func (r *recorder) planned(p *job.Plan) {
	hosts := p.Hosts()
	if slices.Equal(hosts, r.hosts) {
		return
	}
	if r.hosts == nil {
		r.start(registry.ID(p.JobID), p)
		r.emit(record.Event{At: time.Now(), Event: record.Planned, Text: p.Why})
	}
	r.hosts = hosts
	r.add("plan", func() any {
		shown := p.Masked()
		for i := maxRecordedRanks; i < len(shown.Ranks); i++ {
			shown.Ranks[i].Env = shown.Ranks[i].Env[:0]
		}
		return planJSON{len(p.Ranks), shown}
	})
	r.add("machines", func() any { return recordedMachines{machinesOf(p)} }) // after each plan
}

// recordedMachines are those of a job's nodes.
type recordedMachines struct {
	Machines []nodesMachine `json:"machines"`
}

// nodesMachine is a machine of some nodes of a plan, by number.
type nodesMachine struct {
	Nodes   []int             `json:"nodes"`
	Machine placement.Machine `json:"machine"`
}

// maxMachines is how many machines a record, and a page, has.
const maxMachines = 4

// machinesOf returns the machines whose topology was read. Hosts of one kind share theirs.
func machinesOf(p *job.Plan) (list []nodesMachine) {
	for i, n := range p.Nodes {
		if n.Machine.Topology == nil {
			continue
		}
		same := slices.IndexFunc(list, func(m nodesMachine) bool {
			return m.Machine.Topology == n.Machine.Topology && len(m.Machine.GPUs) == len(n.Machine.GPUs)
		})
		if same >= 0 {
			list[same].Nodes = append(list[same].Nodes, i)
		} else if len(list) < maxMachines {
			list = append(list, nodesMachine{[]int{i}, n.Machine})
		}
	}
	return list
}

func (r *recorder) start(id string, p *job.Plan) {
	r.masker, r.programs = p.Masker(), p.Apps
	r.evidence.job = id
	if r.id = id; r.stream != nil {
		r.stream.Start(func() (io.WriteCloser, error) {
			f, err := record.Create(recordsDir(), id)
			if err != nil {
				return nil, err
			}
			record.Prune(recordsDir(), true)
			return recordFile{f, r.began}, nil
		})
	}
}

// recordFile is a record. The end of a long job makes place for the next one.
type recordFile struct {
	*os.File
	began time.Time
}

func (f recordFile) Close() error {
	err := f.File.Close()
	if time.Since(f.began) >= time.Second {
		record.Prune(recordsDir(), false)
	}
	return err
}

// printedJSON is what a job printed last.
type printedJSON struct {
	Report string          `json:"report_text,omitempty"` // gorun's own report of a failure
	Lines  []registry.Line `json:"lines"`                 // the last lines of each stream of each rank
}

// end completes the record. A failure costs the record, not the job.
func (r *recorder) end(report reportJSON) {
	ended := record.Event{
		At: report.EndedAt, Event: record.JobEnded, Code: &report.ExitCode, Text: outcome(report.Result),
	}
	if r.stream != nil {
		r.endRecord(report, ended)
	}
	if r.events != nil {
		r.events.Add(func(w io.Writer) error { return show.Line(w, "event", ended) })
		if err := r.events.Close(recordLimit); !errors.Is(err, unix.EPIPE) { // its reader may leave
			notifyError("--events", err)
		}
	}
}

func (r *recorder) endRecord(report reportJSON, ended record.Event) {
	if r.id == "" { // not planned
		if r.member {
			return
		}
		id := make([]byte, 6) // as registry.ID
		_, _ = rand.Read(id)  // it never fails
		var own job.Plan
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			own.Common = append(own.Common, plan.Variable{Name: name, Value: value})
		}
		r.start(hex.EncodeToString(id), &own)
	}
	text := launcher.Explain(report.Result)
	r.stream.Add(func(io.Writer) error { // here, as a disk may be slow
		r.evidence.report(r.masker.Replace(text))
		return nil
	})
	r.add("printed", func() any { return printedJSON{text, append([]registry.Line{}, r.lines...)} })
	r.add("report", func() any { return report })
	r.add("event", func() any { return ended })
	err := r.stream.Close(recordLimit)
	if errors.Is(err, record.ErrSlow) { // no process can end while it writes to a file system that is frozen
		err = fmt.Errorf("%s does not respond; gorun may have to wait for it", recordsDir())
		r.verbose = true
	}
	if err != nil && r.verbose {
		notify(os.Stderr, "no record of this job: "+printable.Error(err))
	}
}

// outcome says in a few words how a job ended.
func outcome(r *launcher.Result) string {
	switch {
	case r.Requeued != "":
		return r.Requeued
	case r.First != nil:
		return strings.TrimSuffix(fmt.Sprintf("rank %d failed: %s", r.First.Rank, r.First.How), ": ")
	}
	text, _, _ := strings.Cut(r.Text, "\n")
	return strings.TrimSuffix(r.Cause.String()+": "+cmp.Or(text, r.SignalName), ": ")
}
