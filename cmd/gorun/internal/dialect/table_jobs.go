package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/job"
)

// JobsWish is what is to be done with jobs that run.
type JobsWish struct {
	Command string   // ps, top, stop, stacks or logs
	Names   []string // of the jobs, or what their names begin with
	All     bool     // all jobs
	Follow  bool
	NCCL    bool // what NCCL says of a job
	Rank    *int // nil: all
	// Tail is how many last lines of each stream are shown, nil: what there is. Stream is 1 for
	// standard output alone, 2 for standard error, 0 for both.
	Tail   *int
	Stream int
	// Signal is the one that ends a job, 0: SIGTERM; Grace what its ranks get, nil: the job's
	// own.
	Signal syscall.Signal
	Grace  *time.Duration
}

// jobCommands are the commands for jobs that run.
var jobCommands = []string{"ps", "top", "stop", "stacks", "logs"}

// jobDialects are their command lines, in the same order. They are made when somebody
// asks for one.
func jobDialects() (list []*Dialect) {
	for _, name := range jobCommands {
		list = append(list, jobDialect(name))
	}
	return list
}

// aboutJobs is the last word of their help.
const aboutJobs = "A job is known here by its id, or by what no other's begins with. More: docs/jobs.md."

func jobDialect(name string) *Dialect {
	d := &Dialect{Name: Gorun.Name + " " + name, jobs: name, operands: "[JOB]", last: aboutJobs}
	var options []string
	done, none := "it was shown", "there is no such job, or it has ended meanwhile"
	switch name {
	case "ps":
		d.About = "gorun ps lists the jobs of this user that were started on this host; of one job it lists the ranks."
		d.examples = []example{
			{"gorun ps", "the jobs"},
			{"gorun ps 7f3a", "the ranks of one"},
			{"gorun ps --nccl 7f3a", "what NCCL says of it"},
			{"gorun ps --json", "everything, for programs"},
		}
		options = []string{"nccl", "json"}
		none = "there is no such job, it has ended meanwhile, or its NCCL says nothing"
	case "top":
		d.About = "gorun top shows what each rank of a job uses, second by second; q leaves. Where standard output is no " +
			"terminal it prints that once."
		d.examples = []example{{"gorun top", "the only job there is"}, {"gorun top 7f3a", "one of several"}}
	case "stop":
		d.About, d.operands, done = "gorun stop ends jobs as SIGTERM to their gorun does, and waits until they are gone.",
			"JOB...", "the jobs have ended"
		d.examples = []example{
			{"gorun stop 7f3a", "ends a job in order"},
			{"gorun stop --grace 0 7f3a", "kills it"},
			{"gorun stop --all", "ends all jobs of this user on this host"},
		}
		options = []string{"all", "signal", "grace"}
	case "stacks":
		d.About = "gorun stacks says what each rank of a job does right now, ranks that do the same in one line. The ranks " +
			"go on; Python's frames are shown where py-spy is installed."
		d.examples = []example{{"gorun stacks", "the only job there is"}, {"gorun stacks 7f3a --rank 3", "one rank of a job"}}
		options = []string{"rank"}
	case "logs":
		d.About = "gorun logs prints the last lines of each rank, from the job's log files or else from what its gorun " +
			"remembers."
		d.examples = []example{
			{"gorun logs", "the only job there is"},
			{"gorun logs -f --rank 0 7f3a", "what rank 0 prints from now on, too"},
			{"gorun logs -n 1 --stream stderr", "the last line of standard error of each rank"},
		}
		options = []string{"follow", "rank", "tail", "stream"}
	}
	d.examples = append(d.examples, example{"gorun ./" + name + ", gorun -- " + name, "start a program of that name"})
	d.codes = []example{{"0", done}, {"1", none}, {"2", "a mistake on the command line"}, {"125", "gorun's own error"}}
	d.tables = append(rows(jobsTable, options...), rows(ownTable, "version", "help")...)
	return d
}

// jobsTable holds the options of those commands.
var jobsTable = []Option{
	{
		Names: []string{"json"}, Group: GroupShown, from: varNone,
		Help: "print everything as JSON, the ranks of all jobs, too",
		set:  func(p *parser, a arg) error { p.inv.JSON = a.on; return nil },
	},
	{
		Names: []string{"nccl"}, Group: GroupShown, from: varNone,
		Help: "what NCCL (2.24 and later) itself says of a job: its version, which ranks are behind, do not answer or " +
			"report an error",
		set: func(p *parser, a arg) error { p.inv.Jobs.NCCL = a.on; return nil },
	},
	{
		Names: []string{"follow", "f"}, Group: GroupShown, from: varNone,
		Help: "go on with what ranks print from now on, until the job has ended; whoever reads too slowly is dropped, the " +
			"job never waits",
		set: func(p *parser, a arg) error { p.inv.Jobs.Follow = a.on; return nil },
	},
	{
		Names: []string{"rank"}, Group: GroupShown, Value: "N", from: varNone,
		Help: "of rank N alone",
		set: func(p *parser, a arg) error {
			n, err := parseAtLeast(a.value, 0)
			p.inv.Jobs.Rank = &n
			return err
		},
	},
	{
		Names: []string{"tail", "n"}, Group: GroupShown, Value: "N", from: varNone,
		Help: "the last N lines of each stream of each rank, as far as they are kept (default: 60)",
		set: func(p *parser, a arg) error {
			n, err := parseAtLeast(a.value, 0)
			p.inv.Jobs.Tail = &n
			return err
		},
	},
	{
		Names: []string{"stream"}, Group: GroupShown, Value: "NAME", Choices: []string{"stdout", "stderr"}, from: varNone,
		Help: "what ranks print to standard output alone, or to standard error",
		set: func(p *parser, a arg) error {
			p.inv.Jobs.Stream = slices.Index([]string{"stdout", "stderr"}, a.value) + 1
			if p.inv.Jobs.Stream == 0 {
				return errors.New("not one of stdout, stderr")
			}
			return nil
		},
	},
	{
		Names: []string{"all"}, Group: GroupEnd, from: varNone,
		Help: "all jobs of this user on this host",
		set:  func(p *parser, a arg) error { p.inv.Jobs.All = a.on; return nil },
	},
	{
		Names: []string{"signal"}, Group: GroupEnd, Value: "NAME", Choices: []string{"TERM", "INT", "HUP", "KILL"},
		from: varNone,
		Help: "ask ranks to end by SIGINT or SIGHUP in place of SIGTERM; KILL: kill them",
		set:  (*parser).setStopSignal,
	},
	{
		Names: []string{"grace"}, Group: GroupEnd, Value: "D", from: varNone,
		Help: "time between that signal and SIGKILL (default: the job's own)",
		set: func(p *parser, a arg) error {
			d, err := parseDuration(a.value)
			p.inv.Jobs.Grace = &d
			return err
		},
	},
}

// setStopSignal takes a signal that ends a job in order, or KILL, which leaves no time.
func (p *parser) setStopSignal(a arg) error {
	switch sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(a.value), "SIG")); {
	case sig == syscall.SIGKILL:
		p.inv.Jobs.Signal, p.inv.Jobs.Grace = syscall.SIGTERM, new(time.Duration)
	case job.Ends(sig):
		p.inv.Jobs.Signal = sig
	case sig == 0:
		return errors.New("not one of TERM, INT, HUP, KILL")
	default:
		return errors.New("not one of TERM, INT, HUP, KILL; kill -SIGNAL PID of a job's gorun passes others on to its ranks")
	}
	return nil
}

// jobsCommand reads the command line of one of them: names of jobs may stand anywhere
// between options.
func jobsCommand(name string) func([]string, Surroundings) (Invocation, error) {
	return func(args []string, around Surroundings) (Invocation, error) {
		d := jobDialect(name)
		p := &parser{dialect: d, around: around, inv: Invocation{Dialect: d, Jobs: JobsWish{Command: name}}}
		for {
			r := d.rewrite(args)
			if len(r.program) == 0 {
				break
			}
			options := args[:len(args)-len(r.program)]
			if r.ended { // by "--": no more options
				p.inv.Jobs.Names = append(p.inv.Jobs.Names, r.program...)
				args = options[:len(options)-1]
				break
			}
			p.inv.Jobs.Names = append(p.inv.Jobs.Names, r.program[0])
			args = slices.Concat(options, r.program[1:])
		}
		p.parse(args)
		return p.finish()
	}
}

// finishJobs makes an Invocation of their options.
func (p *parser) finishJobs() (Invocation, error) {
	wish := &p.inv.Jobs
	for _, name := range wish.Names {
		if name == "" {
			p.problem(errors.New("the name of a job is empty: an unset variable?"))
		}
	}
	switch stops := wish.Command == "stop"; {
	case stops && wish.All && len(wish.Names) > 0:
		p.problem(fmt.Errorf("--all and %s contradict each other", typed(wish.Names)))
	case stops && !wish.All && len(wish.Names) == 0:
		p.problem(errors.New("no job given: gorun stop JOB..., or --all; gorun ps lists them"))
	case !stops && len(wish.Names) > 1:
		p.problem(fmt.Errorf("%s: one job at a time; gorun ./%s starts a program of that name", typed(wish.Names[1:]),
			wish.Command))
	}
	if p.problems != nil {
		return Invocation{}, &UsageError{p.problems, p.dialect}
	}
	p.inv.Action, p.inv.Spec = Jobs, job.Spec{}
	return p.inv, nil
}
