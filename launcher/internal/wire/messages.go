package wire

import (
	"syscall"
	"time"

	"gorun/placement"
)

// Hello opens a connection: what the head needs to know of the node.
type Hello struct {
	Version int  `json:"v"`
	CPUs    bool `json:"cpus,omitempty"`
	GPUs    bool `json:"gpus,omitempty"`
	// Driverless asks for a note on GPUs that no compute driver serves.
	Driverless bool      `json:"driverless,omitempty"`
	Programs   []Program `json:"programs"`
	// Environ are the variables by which programs and interpreters are found.
	Environ map[string]Raw `json:"environ,omitempty"`
}

// Program is a program as the user named it.
type Program struct {
	Name        Raw   `json:"name"`
	Args        List  `json:"args"`
	Start       uint8 `json:"start,omitempty"` // job.Start
	Interpreter Raw   `json:"python,omitempty"`
	Dir         Raw   `json:"dir,omitempty"`
	ScanStore   bool  `json:"scan,omitempty"` // look whether its text assigns MASTER_PORT
}

// Facts answer Hello.
type Facts struct {
	Version  int               `json:"v"`
	Host     string            `json:"host"`
	Machine  placement.Machine `json:"machine"`
	Programs []Resolved        `json:"programs"`
	TempDir  Raw               `json:"tmp"`
	Now      time.Time         `json:"now"`
}

// Resolved is how a program starts on a node, or why it cannot.
type Resolved struct {
	Path      Raw    `json:"path,omitempty"`
	Argv      List   `json:"argv"`
	ScriptArg int    `json:"arg,omitempty"`  // where the program's own arguments begin in Argv
	Kind      string `json:"kind,omitempty"` // for plans: "executable", "python script" …
	Build     bool   `json:"build,omitempty"`
	// PortLine is the place ("file:line") at which the program's own text assigns
	// MASTER_PORT.
	PortLine string `json:"port_line,omitempty"`
	Code     int    `json:"code,omitempty"` // 126 or 127 with Error
	Error    string `json:"error,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// Open asks node 0 to open the store.
type Open struct {
	Rank0 bool   `json:"rank0,omitempty"` // MASTER_PORT is left to rank 0
	Addr  string `json:"addr,omitempty"`
	Port  int    `json:"port,omitempty"`
}

// Opened answers Open.
type Opened struct {
	Addr  string `json:"addr,omitempty"`  // MASTER_ADDR
	Port  int    `json:"port,omitempty"`  // MASTER_PORT
	Store string `json:"store,omitempty"` // host:port of gorun's own store
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Start has every decision about a node's ranks.
type Start struct {
	JobID  string `json:"job"`
	Common List   `json:"env"` // NAME=VALUE, what all ranks share
	Apps   []App  `json:"apps"`
	Ranks  []Row  `json:"ranks"`
	Stdio  Stdio  `json:"stdio"`
	Logs   *Logs  `json:"logs,omitempty"`
	// PrivateDir is made before a rank could write into it and removed when the
	// job has ended.
	PrivateDir Raw `json:"private,omitempty"`
	// Window is the number of bytes of each stream that may be under way.
	Window int `json:"window"`
	// TorchHint has the agent look, once, for PyTorch ranks that never come to
	// the store.
	TorchHint bool `json:"torch_hint,omitempty"`
}

// App is a program as it is executed.
type App struct {
	Path  Raw  `json:"path"`
	Argv  List `json:"argv"`
	Dir   Raw  `json:"dir,omitempty"`
	Build int  `json:"build,omitempty"` // 1 + index of Hello's program that is built first
}

// Row is one rank.
type Row struct {
	Rank      int  `json:"r"`
	LocalRank int  `json:"l"`
	App       int  `json:"a,omitempty"`
	Env       List `json:"e"`           // what differs from Common
	Args      List `json:"v"`           // argv, where it differs from the app's
	ErrorFile Raw  `json:"x,omitempty"` // where PyTorch writes its error file
}

// Stdio says what the ranks' standard streams are.
type Stdio struct {
	// Terminal gives the only rank the launcher's own descriptors 0 to 2.
	Terminal bool `json:"tty,omitempty"`
	PTY      bool `json:"pty,omitempty"`
	Rows     int  `json:"rows,omitempty"`
	Cols     int  `json:"cols,omitempty"`
	// Direct is the rank that inherits the launcher's standard input, Piped are
	// those that get Stdin frames; all others read /dev/null.
	Direct int   `json:"direct"`
	Piped  []int `json:"piped,omitempty"`
}

// Logs is where and what a node writes to files.
type Logs struct {
	// Base is the run's directory, which the node makes; the null device means no
	// files at all.
	Base            Raw      `json:"base"`
	Role            string   `json:"role,omitempty"`
	Template        string   `json:"template,omitempty"`
	Redirect        []uint8  `json:"redirect"` // streams by local rank
	Tee             []uint8  `json:"tee"`
	Show            []int    `json:"show,omitempty"` // local ranks; nil: all
	DuplicateStdout []string `json:"dup_out,omitempty"`
	DuplicateStderr []string `json:"dup_err,omitempty"`
}

// Running says that all ranks of a node run, or those that had been started
// when StartFailed follows.
type Running struct {
	PIDs map[int]int `json:"pids"`
	At   time.Time   `json:"at"`
}

// StartFailed says that a rank could not be started.
type StartFailed struct {
	Rank int       `json:"rank"`
	Code int       `json:"code"`
	Text string    `json:"text"`
	Hint string    `json:"hint,omitempty"`
	At   time.Time `json:"at"`
}

// Exited says that ranks have ended.
type Exited struct {
	Ranks []RankExit `json:"ranks"`
}

// RankExit is the end of one rank's process.
type RankExit struct {
	Rank      int            `json:"r"`
	PID       int            `json:"p"`
	Code      int            `json:"c,omitempty"`
	Signal    syscall.Signal `json:"s,omitempty"`
	Core      bool           `json:"d,omitempty"`
	At        time.Time      `json:"t"`
	RaisedAt  time.Time      `json:"raised,omitzero"`
	ErrorFile []byte         `json:"error_file,omitempty"`
	OOM       string         `json:"oom,omitempty"`
}

// Signal sends a signal to every rank of a node that still runs.
type Signal struct {
	Signal syscall.Signal `json:"s"`
	Group  bool           `json:"g,omitempty"`
}

// Credit allows Bytes more of a stream.
type Credit struct {
	Stream int `json:"s"`
	Bytes  int `json:"n"`
}

// End has a node end what its ranks left behind.
type End struct {
	Grace time.Duration `json:"grace"`
}

// Gone says that nothing of the job is left on a node.
type Gone struct {
	Left []string `json:"left,omitempty"`
}

// Notice is a line for the user.
type Notice struct {
	Text string `json:"text"`
}

// Resize is the size of the terminal.
type Resize struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}
