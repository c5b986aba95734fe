package nccl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// said formats assignments as NAME=VALUE, with ? for an unknown value and ~ before a variable that is not
// exported.
func said(settings []Assignment) string {
	var all []string
	for _, a := range settings {
		text := a.Name + "=" + a.Value
		if a.Computed {
			text = a.Name + "?"
		}
		if a.Local {
			text = "~" + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestParseShell(t *testing.T) {
	for text, want := range map[string]string{
		"export A=1 B='2 3' C=\"x\"": "A=1 B=2 3 C=x",
		"A=1\nB=2 ./run C=3":         "~A=1 B=2 C=3",
		"A=1; export A":              "A=1",
		"set -a\nA=1":                "A=1",
		"declare -x A=1":             "A=1",
		"env -i A=1 B=2 prog C=3":    "A=1 B=2 C=3",
		"srun env A=1 prog":          "A=1",
		"setenv A 1":                 "A=1",
		"set -gx A 1":                "A=1",
		"set -x":                     "",
		"export A=$B C=${D:-e} F=${G} H=$(date) I=`d`":                  "A? C=e F? H? I?",
		"export A=\"$(echo \"x\")\" B=1":                                "A? B=1",
		"mpirun -np 2 -x A=1 -x B -genv C 2 ./a":                        "A=1 C=2",
		"mpirun --mca pml ucx -mca btl ^tcp a":                          "OMPI_MCA_pml=ucx OMPI_MCA_btl=^tcp",
		"srun --export=ALL,A=1,B=2 x":                                   "A=1 B=2",
		"sbatch --export ALL,A=1 x":                                     "A=1",
		"docker run -e A=1 --env B=2 --env=C=3 img":                     "A=1 B=2 C=3",
		"qsub -v A=1,B=2 x":                                             "A=1 B=2",
		"export A=1 \\\n  B=2":                                          "A=1 B=2",
		"# export A=1\nexport B=1 # C=2":                                "B=1",
		"#SBATCH --export=ALL,A=1\n#PBS -v B=2,C=3":                     "A=1 B=2 C=3",
		"cat > f <<EOF\nA=1\n# x\nEOF\nexport B=2":                      "A=1 B=2",
		"cat <<'E' ; export B=2\n A=1\nE\nexport C=3":                   "B=2 A=1 C=3",
		"if a; then export A=1; fi":                                     "A=1",
		"(export A=1) && B=2 x | C=3 y":                                 "A=1 B=2 C=3",
		"export A='1":                                                   "A=",
		"echo A=1 -x":                                                   "A=1",
		"ssh node 'A=1 ./run'":                                          "A=1",
		"ssh -p 22 -o X=y -tt me@node \"export A=$B; C=2 ./run\" > log": "X=y A? C=2",
		"A=1 nohup ssh node B=2 ./run C=3 &":                            "A=1 B=2 C=3",
		"ssh node 'A=1; ./run'":                                         "A=1",
		"ssh -v node":                                                   "",
		"ssh node \"ssh other 'A=1 ./run'\"":                            "A=1",
		"pdsh -w n[1-4] 'A=1 ./run'":                                    "A=1",
		"srun bash -lc 'export A=1; ./run'":                             "A=1",
		"bash run.sh -c 'A=1 x'":                                        "A=1",
		"mpirun -x A=1 sh -c 'B=2 exec ./run' x":                        "A=1 B=2",
	} {
		assert.Equal(t, want, said(parsePatterns(FromScript, text)), "%s", text)
	}
}

func TestBranches(t *testing.T) {
	settings := parsePatterns(FromScript, "export A=1\nif x; then export B=1\nelse export C=1\nD=1 cmd\nfi\nE=1 cmd")
	at := map[string]Assignment{}
	for _, a := range settings {
		at[a.Name] = a
	}
	for _, row := range []struct {
		one, with string
		holds     bool
	}{
		{"A", "B", true},
		{"A", "E", true},
		{"B", "A", false},
		{"B", "C", false},
		{"C", "D", true},
		{"D", "C", false},
		{"E", "A", false},
	} {
		require.Equal(t, row.holds, at[row.with].within(at[row.one]), "%s holds where %s does", row.one, row.with)
	}
}

func TestParseDockerfile(t *testing.T) {
	for text, want := range map[string]string{
		"FROM x\nENV A=1 B=\"2 3\" C=4\\ 5":               "A=1 B=2 3 C=4 5",
		"ENV A 1 2":                                       "A=1 2",
		"env A=$B":                                        "A?",
		"ENV A=1 \\\n # note\n\n  B=2":                    "A=1 B=2",
		"# escape=`\nENV A=1 `\n B=2":                     "A=1 B=2",
		"RUN A=1 make && export B=2":                      "A=1 B=2",
		"RUN <<EOF\nexport A=1\nEOF\nENV B=2":             "A=1 B=2",
		"CMD [\"sh\", \"-c\", \"A=1 x\"]":                 "A=1",
		"ENTRYPOINT [\"mpirun\", \"-x\", \"A=1\", \"b\"]": "A=1",
		"ONBUILD ENV A=1":                                 "A=1",
		"COPY A=1 /":                                      "",
		"LABEL A=1":                                       "",
	} {
		require.Equal(t, want, said(parsePatterns(FromDockerfile, text)), "%s", text)
	}
}

func TestParsePython(t *testing.T) {
	for text, want := range map[string]string{
		"import os\nos.environ['A'] = '1'":                         "A=1",
		"os.environ[\"A\"] = str(4)":                               "A=4",
		"os.environ['A'] = f'{x}'; os.environ['B'] = x":            "A? B?",
		"os.environ['A'] = '1' if x else '2'":                      "A?",
		"os.environ['A'] = ('1'\n '2')":                            "A?",
		"os.environ['A'] == '1'":                                   "",
		"if os.environ['A'] == '1': pass":                          "",
		"x = os.environ['A']":                                      "",
		"os.environ.setdefault('A', '1')":                          "A=1",
		"os.putenv('A', '1')":                                      "A=1",
		"monkeypatch.setenv('A', '1')":                             "A=1",
		"os.environ.update({'A': '1', 'B': str(2)})":               "A=1 B=2",
		"os.environ.update(A='1')":                                 "A=1",
		"env = dict(os.environ, A='1')":                            "A=1",
		"runtime_env={'env_vars': {'A': '1'}}":                     "env_vars? A=1",
		"os.environ |= {'A': '1', 'B': x}":                         "A=1 B?",
		"os.environ |= dict(A='1')":                                "A=1",
		"errors = {'A': 'x'}":                                      "A=x", // any dictionary
		"# os.environ['A'] = '1'\n'''\nos.environ['B'] = '1'\n'''": "",
		"os.environ['A'] = r'\\d'":                                 "A=\\d",
		"os.environ['A'] = 'a' 'x'":                                "A?",
		"os.environ['A'] = '''1'''":                                "A?",
		"os.environ['A'] = 'x\nos.environ['B'] = '2'":              "A? B=2",
	} {
		require.Equal(t, want, said(parsePatterns(FromPython, text)), "%s", text)
	}
}

func TestKindOf(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       SourceKind
	}{
		{"docker/Dockerfile.gpu", "", FromDockerfile},
		{"a.py", "", FromPython},
		{"train", "#!/usr/bin/env python3\n", FromPython},
		{"/etc/nccl.conf", "", FromConf},
		{"job.yml", "", FromYAML},
		{".vscode/launch.json", "", FromJSON},
		{"-", "apiVersion: v1\n", FromYAML},
		{"-", "{\n", FromJSON},
		{".rccl.conf", "", FromConf},
		{"x", "#!/bin/bash\nA=1\n", FromScript},
		{"-", "A=1\nB=2\n", FromEnvironment},
		{"-", "import os\n", FromPython},
		{"-", "FROM x\n", FromDockerfile},
		{"-", "mpirun -x A=1 b\n", FromScript},
	} {
		require.Equal(t, row.want, kindOf(row.name, []byte(row.text)), "%s %q", row.name, row.text)
	}
	require.Equal(t, "A=b c D='", said(parsePatterns(FromEnvironment, "A=\"b c\"\nD='\nno\n1=2\n")))
}

// Each assignment names all its branches. Without a limit, a script of 760 kB used 1.4 GB of memory.
func TestDeepBranches(t *testing.T) {
	const deep = 20_000
	script := strings.Repeat("if true; then export NCCL_DEBUG=INFO; ", deep) + strings.Repeat("fi; ", deep) +
		"export NCCL_DEBUG=WARN"
	found := parsePatterns(FromScript, script)
	require.Len(t, found, deep+1)
	for _, a := range found {
		require.LessOrEqual(t, len(a.branch), mostBlocks*len("/123456"))
	}
	require.NotEqual(t, found[mostBlocks-2].branch, found[mostBlocks-1].branch)
	require.Equal(t, found[0].branch, parsePatterns(FromScript, "if true; then export NCCL_DEBUG=INFO; fi")[0].branch)
	require.Empty(t, found[deep].branch, "each fi has left what its if began")
}
