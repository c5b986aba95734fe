package launcher

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gorun/launcher/hosts"
)

// What a host should have, at least.
const (
	enoughRoom     = 128 << 20 // bytes, for gorun's own copy and what ranks write
	enoughFiles    = 1024      // what a login gets by default
	enoughProcs    = 1024
	enoughMemlock  = 1 << 30 // bytes: InfiniBand locks what it sends and receives
	closeEnough    = 1.0     // seconds between clocks: make and caches compare files' times
	fullHash       = 64      // digits of a SHA-256
	hashDigits     = 12      // that tell files apart for people
	ulimitsForever = "raise it in /etc/security/limits.conf, and by Limit%s= where sshd is a service of systemd; a " +
		"container has --ulimit %s"
)

// judge makes the list of what is wrong: with each host, then what differs between them.
func (c *hostsCheck) judge() {
	known := c.answered()
	for _, r := range known {
		c.judgeHost(r)
	}
	c.judgeSame(known)
	c.judgePrograms(known)
	for _, r := range known {
		for _, note := range r.Notes {
			c.add(r, note, "", true)
		}
	}
	c.report.Problems = slices.SortedStableFunc(slices.Values(c.found), func(a, b HostsProblem) int {
		return cmp.Compare(order(a), order(b))
	})
	if c.report.Problems == nil {
		c.report.Problems = []HostsProblem{} // [] as JSON
	}
}

// order has remarks stand last.
func order(p HostsProblem) int {
	if p.Remark {
		return 1
	}
	return 0
}

// answered are the reports on hosts that said what they have.
func (c *hostsCheck) answered() (known []*HostReport) {
	for _, n := range c.nodes {
		if r := c.of(n); r.Architecture != "" {
			known = append(known, r)
		}
	}
	return known
}

func (c *hostsCheck) add(r *HostReport, text, hint string, remark bool) {
	c.found.add(HostsProblem{Hosts: []string{r.Name}, Text: text, Hint: hint, Remark: remark})
}

// judgeHost finds what is wrong with one host, whatever others are like.
func (c *hostsCheck) judgeHost(r *HostReport) {
	if r.Version != c.report.Version {
		c.add(r, fmt.Sprintf("its gorun is %s, this one %s (%s)", r.Version, c.report.Version, r.Executable),
			"without --agent this one is copied there", false)
	}
	c.judgeClock(r)
	if r.Missing != "" {
		text := r.Missing
		if !strings.Contains(text, r.Dir) {
			text = "the working directory " + r.Dir + ": " + text
		}
		c.add(r, text, "--chdir DIR names a directory that each host has", false)
	}
	for _, room := range r.Rooms {
		c.judgeRoom(r, room)
	}
	for _, l := range r.Limits {
		c.judgeLimit(r, l)
	}
	if p := r.Program; p != nil && p.Error != "" && r.Missing == "" {
		hint := p.Hint
		if !r.Here {
			hint = cmp.Or(hint, "--copy PATH sends a file or directory to each host")
		}
		c.add(r, p.Error, hint, false)
	}
	var used []string
	for _, g := range r.GPUs {
		if g.Used {
			used = append(used, fmt.Sprint(g.Index))
		}
	}
	if len(used) > 0 {
		c.add(r, fmt.Sprintf("%d of %d GPUs are in use: %s", len(used), len(r.GPUs), hosts.Fold(used)),
			"--gpus free takes the others; nvidia-smi on the host shows by whom", false)
	}
}

func (c *hostsCheck) judgeClock(r *HostReport) {
	if r.Clock == nil || math.Abs(r.Clock.Ahead)-r.Clock.Uncertainty < closeEnough {
		return
	}
	way := "ahead of"
	if r.Clock.Ahead < 0 {
		way = "behind"
	}
	c.add(r, fmt.Sprintf("its clock is %.1f s %s this host's", math.Abs(r.Clock.Ahead), way),
		"timedatectl on the host says whether it is set by NTP", false)
}

func (c *hostsCheck) judgeRoom(r *HostReport, room RoomReport) {
	where := fmt.Sprintf("%s (%s)", room.Path, room.Purpose)
	switch {
	case room.Error != "" && room.Purpose == "cache": // another place is taken then
		c.add(r, where+": "+room.Error, "gorun's copy goes to the temporary directory, where the next boot may remove it",
			true)
	case room.Error != "":
		c.add(r, where+": "+room.Error, "TMPDIR on the host names another directory", false)
	case room.Free < enoughRoom:
		c.add(r, fmt.Sprintf("only %d MiB are free in %s", room.Free>>20, where), "make room there", false)
	}
}

func (c *hostsCheck) judgeLimit(r *HostReport, l LimitReport) {
	least := map[string]int64{"nofile": enoughFiles, "nproc": enoughProcs}[l.Name]
	if l.Name == "memlock" && r.InfiniBand {
		least = enoughMemlock
	}
	if l.Soft < 0 || l.Soft >= least {
		return
	}
	text := fmt.Sprintf("%s is %d", l.Name, l.Soft)
	if l.Name == "memlock" {
		text = fmt.Sprintf("memlock is %d KiB, and InfiniBand has to lock memory", l.Soft>>10)
	}
	c.add(r, text, fmt.Sprintf(ulimitsForever, strings.ToUpper(l.Name), l.Name), false)
}

// judgeSame finds hosts that differ from most others.
func (c *hostsCheck) judgeSame(known []*HostReport) {
	c.differing(known, func(r *HostReport) string { return r.Architecture }, func(r *HostReport, most string, others int) {
		c.add(r, fmt.Sprintf("it is %s, %s %s", r.Architecture, theOthers(others), most),
			"a job's program runs on one kind of machine", false)
	})
	c.differing(known, func(r *HostReport) string { return gpuCount(r) }, func(r *HostReport, most string, others int) {
		c.add(r, fmt.Sprintf("it has %s, %s %s", gpuCount(r), theOthers(others), most),
			"a driver may be missing or a GPU have failed: nvidia-smi on the host; uneven numbers of ranks are fine otherwise",
			false)
	})
	c.differing(known, gpuNames, func(r *HostReport, most string, others int) {
		if gpuNames(r) != "" && most != "" {
			c.add(r, fmt.Sprintf("its GPUs are %s, %s %s", gpuNames(r), theOthers(others), most),
				"the slowest GPU sets a job's pace", true)
		}
	})
}

// theOthers begins what most other hosts have.
func theOthers(others int) string {
	if others == 1 {
		return "the other host"
	}
	return fmt.Sprintf("%d others", others)
}

func gpuCount(r *HostReport) string {
	switch len(r.GPUs) {
	case 0:
		return "no GPU"
	case 1:
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", len(r.GPUs))
}

// gpuNames are the kinds of GPUs that a host has.
func gpuNames(r *HostReport) string {
	var names []string
	for _, g := range r.GPUs {
		if !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// differing calls tell for each host whose property is not that of most, which with as
// many on either side is that of the first.
func (c *hostsCheck) differing(known []*HostReport, property func(*HostReport) string,
	tell func(r *HostReport, most string, others int),
) {
	count := map[string]int{}
	for _, r := range known {
		count[property(r)]++
	}
	var most string
	for _, r := range known {
		if p := property(r); count[p] > count[most] {
			most = p
		}
	}
	for _, r := range known {
		if property(r) != most {
			tell(r, most, count[most])
		}
	}
}

// judgePrograms finds hosts on which the program is another one.
func (c *hostsCheck) judgePrograms(known []*HostReport) {
	known = slices.DeleteFunc(slices.Clone(known), func(r *HostReport) bool {
		return r.Program == nil || len(r.Program.SHA256) != fullHash
	})
	c.differing(known, func(r *HostReport) string {
		return fmt.Sprint(r.Program.Size, " ", r.Program.SHA256)
	}, func(r *HostReport, most string, others int) {
		_, sum, _ := strings.Cut(most, " ")
		of := "on the other host"
		if others > 1 {
			of = fmt.Sprintf("on %d others", others)
		}
		c.add(r, fmt.Sprintf("%s is not the same as %s: its SHA-256 begins with %s, there with %s", r.Program.Path, of,
			r.Program.SHA256[:hashDigits], sum[:hashDigits]),
			"--copy "+c.report.Program+" sends yours to each host", false)
	})
	for _, r := range known {
		if r.Program.Size > checkedBytes {
			c.add(r, fmt.Sprintf("of %s, which has %d MiB, the first %d were compared", filepath.Base(r.Program.Path),
				r.Program.Size>>20, checkedBytes>>20), "", true)
		}
	}
}
