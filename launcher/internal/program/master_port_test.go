package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each program says in a comment on a line of its own that ends in "<-" which line counts; none means that none does.
func TestAssignsMasterPort(t *testing.T) {
	for name, text := range map[string]string{
		"the PyTorch tutorial": `
import os
import torch.distributed as dist

def setup(rank, world_size):
    os.environ['MASTER_ADDR'] = 'localhost'
    os.environ['MASTER_PORT'] = '12355' # <-
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

def demo_basic(rank, world_size):
    setup(rank, world_size)

def run_demo(demo_fn, world_size):
    mp.spawn(demo_fn, args=(world_size,), nprocs=world_size, join=True)

if __name__ == "__main__":
    run_demo(demo_basic, 2)
`,
		"the PyTorch tutorial with Windows": `
def setup(rank, world_size):
    if sys.platform == 'win32':
        # Distributed package only covers collective communications with Gloo
        init_method="file:///{your local file path}"
    else:
        os.environ['MASTER_ADDR'] = 'localhost'
        os.environ['MASTER_PORT'] = '12355' # <-

setup(0, 1)
`,
		"at the top":                  "os.environ[\"MASTER_PORT\"] = \"29500\" # <-",
		"main guard":                  "if __name__ == '__main__':\n  os.environ['MASTER_PORT'] = '1' # <-",
		"main guard, turned":          "if '__main__' == __name__:\n  os.environ['MASTER_PORT'] = '1' # <-",
		"main guard on one line":      "if __name__ == '__main__': os.environ['MASTER_PORT'] = '1'; main() # <-",
		"main guard and more":         "if __name__ == '__main__' and x:\n  os.environ['MASTER_PORT'] = '1'",
		"imported environ":            "from os import environ\nenviron['MASTER_PORT'] = str(port) # <-",
		"imported under another name": "from os import path, environ as E\nE['MASTER_PORT'] = '1' # <-",
		"alias":                       "env = os.environ\nenv['MASTER_PORT'] = '1' # <-",
		"a copy for a child":          "env = os.environ.copy()\nenv['MASTER_PORT'] = '1'\nsubprocess.run(x, env=env)",
		"bytes":                       "os.environb[b'MASTER_PORT'] = b'1' # <-",
		"free port":                   "os.environ['MASTER_PORT'] = str(find_free_port()) # <-",
		"from the job id":             "os.environ['MASTER_PORT'] = str(10000 + int(os.environ['SLURM_JOB_ID'][-4:])) # <-",
		"conditional value":           "os.environ['MASTER_PORT'] = port if port else '1' # <-",
		"from a configuration":        "os.environ['MASTER_PORT'] = cfg['MASTER_PORT'] # <-",
		"from a configuration's get":  "os.environ['MASTER_PORT'] = cfg.get('MASTER_PORT', '1') # <-",
		"f-string":                    "os.environ['MASTER_PORT'] = f'{port}' # <-",
		"several targets":             "os.environ['A'] = os.environ['MASTER_PORT'] = '1' # <-",
		"tuple":                       "os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'] = a, p # <-",
		"semicolons":                  "a = 1; os.environ['MASTER_PORT'] = '1'; b = 2 # <-",
		"continued line":              "x = 1 + \\\n 2\nos.environ['MASTER_PORT'] \\\n = '1'\n# line 3",
		"over brackets":               "x = [\n'a', # [\n]\nos.environ[\n  'MASTER_PORT' # comment ]\n] = '1'\n# line 4",
		"update with a dictionary":    "os.environ.update({'A': f(1, 2),\n 'MASTER_PORT': '1'}) # line 1",
		"update with a name":          "os.environ.update(MASTER_ADDR='x', MASTER_PORT='1') # <-",
		"update with dict()":          "os.environ.update(dict(MASTER_PORT='1')) # <-",
		"update with pairs":           "os.environ.update([('MASTER_PORT', '1')]) # <-",
		"update with a variable":      "os.environ.update(settings)\nx = 'MASTER_PORT'",
		"or-equals":                   "os.environ |= {'MASTER_PORT': '1'} # <-",
		"putenv":                      "os.putenv('MASTER_PORT', '1') # <-",
		"setitem":                     "os.environ.__setitem__('MASTER_PORT', '1') # <-",
		"method": "class T:\n\tdef setup(self):\n\t\tif True:\n" +
			"\t\t\tos.environ['MASTER_PORT'] = '1' # <-\nT().setup()",
		"async": "async def f():\n  async with x as y:\n    os.environ['MASTER_PORT'] = '1' # <-\n" +
			"asyncio.run(f())",
		"with, for, try": "with a, b:\n for i in x:\n  try:\n   os.environ['MASTER_PORT'] = '1' # <-\n" +
			"  except E: pass",
		"finally": "try:\n f()\nfinally:\n os.environ['MASTER_PORT'] = '1' # <-",
		"all branches": "if args.port:\n os.environ['MASTER_PORT'] = args.port\nelse:\n" +
			" os.environ['MASTER_PORT'] = '1' # <-",
		"one branch": "if args.port:\n os.environ['MASTER_PORT'] = args.port\nelse:\n pass",
		"elif lacks it": "if a:\n os.environ['MASTER_PORT']='1'\nelif b:\n pass\nelse:\n" +
			" os.environ['MASTER_PORT']='1'",
		"no else":               "if a:\n os.environ['MASTER_PORT']='1'\nelif b:\n os.environ['MASTER_PORT']='1'",
		"other systems":         "if os.name == 'nt':\n os.environ['MASTER_PORT']='1'",
		"this system":           "if platform.system() != 'Windows':\n os.environ['MASTER_PORT']='1' # <-",
		"lambda in a condition": "if (lambda: 1)() if x else lambda: 2: os.environ['MASTER_PORT']='1'",
		"after a condition":     "if a:\n  pass\nos.environ['MASTER_PORT'] = '1' # <-",
		"after an early return": "def f(a):\n  if a == 1:\n    return\n  os.environ['MASTER_PORT'] = '1' # <-\nf(2)",
		"CR LF":                 "def f():\r\n    os.environ['MASTER_PORT'] = '1'\r\nf()\r\n# line 2",
		"old Mac":               "def f():\r    os.environ['MASTER_PORT'] = '1'\rf()\r# line 2",
		"byte order mark":       "\ufeffos.environ['MASTER_PORT'] = '1' # <-",
		"after a docstring":     "'''\nMASTER_PORT\n'''\nos.environ['MASTER_PORT'] = '1'\n# line 4",
		"after strings full of quotes": `x = "it's"; y = 'say \'#'; z = r"\"; w = """a"b"""` +
			"\nos.environ['MASTER_PORT'] = '1' # <-",
		"a number of keywords":      "match = 1\ncase = 2\nmatch.x = 3\nos.environ['MASTER_PORT'] = '1' # <-",
		"setdefault and assignment": "os.environ.setdefault('MASTER_PORT', '1')\nos.environ['MASTER_PORT'] = '2' # <-",

		"called by name":    "def f():\n  os.environ['MASTER_PORT'] = '1' # <-\nglobals()[sys.argv[1]]()",
		"named in a string": "def f():\n  os.environ['MASTER_PORT'] = '1' # <-\ngetattr(here, 'f')()",
		"decorated":         "@app.command\ndef f():\n  os.environ['MASTER_PORT'] = '1' # <-\napp()",
		"method of a framework's": "class T(L.Callback):\n  def setup(self):\n    os.environ['MASTER_PORT'] = '1' # <-\n" +
			"L.Trainer(T()).fit()",
		"called by what is called": "def a():\n  os.environ['MASTER_PORT'] = '1' # <-\ndef b():\n  a()\nb()",
		"constructor":              "class T:\n  def __init__(self):\n    os.environ['MASTER_PORT'] = '1' # <-\nT()",
		"default of a parameter":   "def a():\n  os.environ['MASTER_PORT'] = '1' # <-\ndef b(do=a):\n  do()\nb()",

		"never called":                "def f():\n  os.environ['MASTER_PORT'] = '1'\nmain()",
		"method that is never called": "class T:\n  def setup(self):\n    os.environ['MASTER_PORT'] = '1'\nT().run()",
		"function of one":             "def a():\n  def b():\n    os.environ['MASTER_PORT'] = '1'\n  b()\nb = 1",
		"called in a docstring":       "'''Nobody calls f.'''\ndef f():\n  os.environ['MASTER_PORT'] = '1'",
		"called in a comment":         "def f():\n  os.environ['MASTER_PORT'] = '1'\n# f()",
		"setdefault":                  "os.environ.setdefault('MASTER_PORT', '1')",
		"not in":                      "if 'MASTER_PORT' not in os.environ:\n  os.environ['MASTER_PORT'] = '1'",
		"not in, one line":            "if 'MASTER_PORT' not in os.environ: os.environ['MASTER_PORT'] = '1'",
		"not in keys":                 "if 'MASTER_PORT' not in os.environ.keys():\n  os.environ['MASTER_PORT'] = '1'",
		"not get":                     "if not os.environ.get('MASTER_PORT'):\n  os.environ['MASTER_PORT'] = '1'",
		"get is None":                 "if os.environ.get('MASTER_PORT') is None:\n  os.environ['MASTER_PORT'] = '1'",
		"getenv":                      "if os.getenv('MASTER_PORT') is None:\n  os.environ['MASTER_PORT'] = '1'",
		"no launcher":                 "if 'RANK' in os.environ:\n  pass\nelse:\n  os.environ['MASTER_PORT'] = '1'",
		"Slurm": "if 'RANK' in os.environ:\n  pass\nelif 'SLURM_PROCID' in os.environ:\n" +
			"  os.environ['MASTER_PORT'] = '1'",
		"return when set": "def f():\n  if 'MASTER_PORT' in os.environ:\n    return\n" +
			"  os.environ['MASTER_PORT'] = '1'",
		"exit when set": "if os.environ.get('MASTER_PORT'):\n  sys.exit(main())\n" +
			"os.environ['MASTER_PORT'] = '1'",
		"KeyError": "try:\n  port = os.environ['MASTER_PORT']\nexcept KeyError:\n" +
			"  os.environ['MASTER_PORT'] = '1'",
		"KeyError, else":   "try:\n  f()\nexcept KeyError:\n  pass\nelse:\n  os.environ['MASTER_PORT'] = '1'",
		"itself by get":    "os.environ['MASTER_PORT'] = os.environ.get('MASTER_PORT', '29500')",
		"itself by getenv": "os.environ['MASTER_PORT'] = str(os.getenv('MASTER_PORT', 29500))",
		"itself or":        "os.environ['MASTER_PORT'] = os.environ['MASTER_PORT'] or '1'",
		"itself by condition": "os.environ['MASTER_PORT'] = '1' if 'MASTER_PORT' not in os.environ else " +
			"os.environ['MASTER_PORT']",
		"itself by a helper":     "os.environ['MASTER_PORT'] = misc.get_env('MASTER_PORT', '1')",
		"itself by f-string":     "os.environ['MASTER_PORT'] = f\"{os.environ.get('MASTER_PORT', 1)}\"",
		"itself by a variable":   "port = os.environ.get('MASTER_PORT', '29500')\nos.environ['MASTER_PORT'] = str(port)",
		"itself by an attribute": "self.port: str = os.environ.get('MASTER_PORT')\nos.environ['MASTER_PORT'] = self.port",
		"itself by an option": "p.add_argument('--master-port', default=os.environ.get('MASTER_PORT'))\n" +
			"os.environ['MASTER_PORT'] = args.master_port",
		"itself by a parameter":       "def f(a, port=os.environ.get('MASTER_PORT')):\n  os.environ['MASTER_PORT'] = port",
		"itself in a branch":          "if a:\n  port = os.environ['MASTER_PORT']\nos.environ['MASTER_PORT'] = port",
		"update with itself":          "os.environ.update({'MASTER_PORT': os.environ.get('MASTER_PORT', '1')})",
		"update with all that is set": "os.environ.update({'MASTER_PORT': '1', **os.environ})",
		"update of what is missing": "os.environ.update({k: v for k, v in {'MASTER_PORT': '1'}.items() if k not in " +
			"os.environ})",
		"short circuit":               "'MASTER_PORT' in os.environ or os.environ.update(MASTER_PORT='1')",
		"condition":                   "if args.local:\n  os.environ['MASTER_PORT'] = '1'",
		"while":                       "while not os.environ.get('MASTER_PORT'):\n  os.environ['MASTER_PORT'] = '1'",
		"match":                       "match launcher:\n  case 'mp':\n    os.environ['MASTER_PORT'] = '1'",
		"case on one line":            "match x:\n  case 1: os.environ['MASTER_PORT'] = '1'",
		"comparison":                  "assert os.environ['MASTER_PORT'] == '1'",
		"reading":                     "port = int(os.environ['MASTER_PORT'])",
		"deleting":                    "del os.environ['MASTER_PORT']",
		"adding":                      "os.environ['MASTER_PORT'] += '1'",
		"index":                       "x[os.environ['MASTER_PORT']] = '1'",
		"another mapping":             "config['MASTER_PORT'] = '1'",
		"another key":                 "os.environ['MASTER_PORTS'] = '1'",
		"comment":                     "# os.environ['MASTER_PORT'] = '1'",
		"docstring":                   "def f():\n  \"\"\"\n  os.environ['MASTER_PORT'] = '1'\n  \"\"\"",
		"string":                      "print(\"os.environ['MASTER_PORT'] = '1'\")",
		"escaped end of a string":     `x = "\" \nos.environ['MASTER_PORT'] = '1'"`,
		"raw string of several lines": "x = r'''\nos.environ['MASTER_PORT'] = '1'\n\\'''",
		"argument":                    "f(os.environ['MASTER_PORT'], x='1')",
		"false":                       "if False:\n  os.environ['MASTER_PORT'] = '1'",
		"an exception's name":         "try:\n  f()\nexcept E: os.environ['MASTER_PORT'] = '1'",
		"else of a loop":              "for i in x:\n  pass\nelse:\n  os.environ['MASTER_PORT'] = '1'",
		"nothing":                     "",
	} {
		t.Run(name, func(t *testing.T) {
			place, ok := assignsMasterPort([]byte(text))
			want := wantedLine(text)
			require.Equal(t, want, place.Line, "%s", text)
			require.Equal(t, want != 0, ok)
		})
	}
}

// wantedLine is the number of the line that ends in "# <-", or what "# line N" says.
func wantedLine(text string) int {
	for i, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, "# <-") {
			return i + 1
		}
		if _, number, ok := strings.Cut(line, "# line "); ok {
			return int(number[0] - '0')
		}
	}
	return 0
}

// Scripts that end a group, and may make another one at the port in their text.
func TestRegroups(t *testing.T) {
	const port = "os.environ['MASTER_ADDR'] = 'localhost'\nos.environ['MASTER_PORT'] = '12355'\n"
	const one, end = "dist.init_process_group('gloo')\n", "dist.destroy_process_group()\n"
	const body = "\n  dist.init_process_group('gloo')\n  dist.destroy_process_group()\n"
	const step = "def step():" + body
	const twice = "step()\nstep()\n"
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"one":             {port + one + end, true},
		"two":             {port + one + end + one + end, true},
		"never destroyed": {port + one + one, false},
		"in a loop":       {port + "for n in range(9):" + body, true},
		"by a function":   {port + step + twice, true},
		"read again":      {port + step + "print(os.environ['MASTER_PORT'])\n" + twice, true},
		"another port":    {port + step + "step()\nos.environ['MASTER_PORT'] = '12356'\nstep()\n", false},
		"an unknown port": {"os.environ['MASTER_PORT'] = str(port)\n" + step + twice, false},
		"another address": {step + "os.environ['MASTER_ADDR'] = host\nos.environ['MASTER_PORT'] = '1'\n" + twice, false},
		"another host": {
			step + "os.environ['MASTER_ADDR'] = 'node1'\nos.environ['MASTER_PORT'] = '1'\n" + twice, false,
		},
		"spawned processes":  {port + step + "import torch.multiprocessing as mp\n" + twice, false},
		"a store of its own": {port + step + "s = dist.TCPStore('localhost', 1, is_master=True)\n" + twice, false},
	} {
		place, ok := assignsMasterPort([]byte(c.text))
		require.True(t, ok, name)
		require.Equal(t, c.want, place.Regroups, name)
	}
}

func TestPortThatIsAssigned(t *testing.T) {
	for text, want := range map[string]int{
		`os.environ["MASTER_PORT"] = "12355"`:                         12355,
		`os.environ["MASTER_PORT"] = str(12355)`:                      12355,
		`os.environ["MASTER_PORT"] = port`:                            0,
		`os.environ["MASTER_PORT"] = str(port + 1)`:                   0,
		`os.environ["MASTER_PORT"] = f"{port}"`:                       0,
		`os.environ["MASTER_PORT"] = "99999"`:                         0,
		`os.environ["MASTER_ADDR"] = os.environ["MASTER_PORT"] = "7"`: 7,
		`os.environ.update(MASTER_PORT="12355", X="1")`:               12355,
		`os.environ.update({"MASTER_PORT": "12355"})`:                 12355,
		`os.putenv("MASTER_PORT", "12355")`:                           12355,
	} {
		place, ok := assignsMasterPort([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, place.Port, text)
	}
}

func TestAssignsMasterPortReadsTheFile(t *testing.T) {
	assignment := "os.environ['MASTER_PORT'] = '1'\n"
	path := filepath.Join(t.TempDir(), "x.py")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }

	write("\n" + assignment)
	place, ok := AssignsMasterPort(path)
	require.True(t, ok)
	require.Equal(t, Assignment{Line: 2, Port: 1}, place)

	write(strings.Repeat("#", sourceLimit) + "\n" + assignment)
	_, ok = AssignsMasterPort(path)
	require.False(t, ok, "beyond what is read")

	_, ok = AssignsMasterPort(path + "x")
	require.False(t, ok, "no file")
	_, ok = AssignsMasterPort(t.TempDir())
	require.False(t, ok, "a directory")
}

// With a scanner of quadratic cost this test would run for hours.
func TestScannerIsLinear(t *testing.T) {
	for _, part := range []string{
		"(", "if x:\n", "'", "\\\n", "a=", "os.environ.", "{'MASTER_PORT':", "lambda:",
		"x=os.environ['MASTER_PORT']\n", ";", "f'''",
	} {
		_, ok := assignsMasterPort([]byte(strings.Repeat(part, sourceLimit/4/len(part)) + "\nMASTER_PORT"))
		require.False(t, ok, part)
	}
}

func FuzzAssignsMasterPort(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		place, ok := assignsMasterPort(text)
		require.Equal(t, ok, place.Line != 0)
		if !ok {
			return
		}
		unified := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
		require.LessOrEqual(t, place.Line, strings.Count(unified, "\n")+1)
	})
}
