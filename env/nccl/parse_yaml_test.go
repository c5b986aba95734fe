package nccl

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gorun/internal/testneeds"
)

// read lists the assignments in a text, with line numbers; ? is an unknown value.
func read(file, text string) (got []string) {
	for _, a := range ParseFile(file, []byte(text)) {
		value := a.Value
		if a.Computed {
			value = "?"
		}
		got = append(got, fmt.Sprintf("%d %s=%s", a.Line, a.Name, value))
	}
	return got
}

// Parsing time is linear in the length of the text, even if a line has many templates.
func TestManyTemplates(t *testing.T) {
	assert.Empty(t, read("a.yaml", "env: "+strings.Repeat("{{a}}", testneeds.Count(1<<17, 3<<20))+"\n"))
}

func TestYAML(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"Kubernetes": {`apiVersion: v1
kind: Pod
spec:
  containers:
  - name: train # the trainer
    image: "x:1"
    env:
    - name: NCCL_DEBUG
      value: "INFO"
    - {name: NCCL_IB_HCA, value: "=mlx5_0"}
    - name: NCCL_SOCKET_IFNAME
      valueFrom:
        fieldRef: {fieldPath: status.hostIP}
    - value: a # b
      name: NCCL_ALGO
    args: ["mpirun", "-x", "NCCL_PROTO=LL", "train"]
    command:
      - bash
      - -c
      - |
        set -e
        export NCCL_P2P_DISABLE=1
        train
---
kind: ConfigMap
data:
  NCCL_IB_TC: "106"
  other: text
`, "8 NCCL_DEBUG=INFO|10 NCCL_IB_HCA==mlx5_0|11 NCCL_SOCKET_IFNAME=?|15 NCCL_ALGO=?|" +
			"16 NCCL_PROTO=LL|22 NCCL_P2P_DISABLE=1|27 NCCL_IB_TC=106"},
		"Compose": {`services:
  one:
    environment:
      NCCL_DEBUG: WARN
      NCCL_IB_TC: 106
      "NCCL_ALGO": 'Ring'   # no
      FOO: ${BAR:-1}
    command: mpirun -x NCCL_PROTO=LL train
  two:
    environment:
      - NCCL_DEBUG=INFO
      - "FOO=a b"
      - PASSED
    entrypoint: >
      env NCCL_NET=Socket
      train
  three: {environment: {NCCL_NET: IB,
    NCCL_CROSS_NIC: 0}, image: x}
`, "4 NCCL_DEBUG=WARN|5 NCCL_IB_TC=106|6 NCCL_ALGO=Ring|7 FOO=?|8 NCCL_PROTO=LL|" +
			"11 NCCL_DEBUG=INFO|12 FOO=a|15 NCCL_NET=Socket|17 NCCL_NET=IB|18 NCCL_CROSS_NIC=0"},
		"lists as far left as their key, anchors, and no settings": {`env: &e
- name: NCCL_DEBUG
  value: &v INFO
x: *e
description: FOO=bar
url: http://a:80/#x
`, "2 NCCL_DEBUG=?|5 FOO=bar"},
		"a template": {`env:
{{- if .Values.x }}
  - name: NCCL_DEBUG
    value: {{ .Values.debug }}
{{- end }}
  - name: NCCL_ALGO
    value: "{{ .Values.algo }}"
  - name: NCCL_PROTO
    value: *proto
`, "3 NCCL_DEBUG=?|6 NCCL_ALGO=?|8 NCCL_PROTO=?"},
		"a template that has anchors": {`x-proto: &proto LL
env:
{{- if .Values.x }}
  - name: NCCL_DEBUG
    value: {{ .Values.debug }} # now
{{- end }}
  - name: NCCL_ALGO
    value: "a{{ .Values.algo }}b{{ include "x" . }}"
  - name: NCCL_PROTO
    value: *proto
`, "4 NCCL_DEBUG=?|7 NCCL_ALGO=?|9 NCCL_PROTO=?"},
		"what is no YAML": {"env: {NCCL_DEBUG: INFO}\n---\na: [\n", "1 NCCL_DEBUG=INFO"},
	} {
		assert.Equal(t, strings.Split(test.want, "|"), read("a.yaml", test.text), name)
	}
	for _, text := range []string{
		strings.Repeat("- ", 1<<20), strings.Repeat("{", 1<<20), strings.Repeat("[\n", 1<<16),
		"a: [don't\nb: 1\nenv: {NCCL_ALGO: x}", "- ", ":", "a:\n- b:\n  -", "? x\n: y",
	} {
		read("a.yaml", text) // it returns
	}
}

func TestJSON(t *testing.T) {
	assert.Equal(t, []string{
		"5 NCCL_DEBUG=INFO", "6 FOO=?", "7 NCCL_ALGO=Ring",
		"11 NCCL_PROTO=LL", "13 NCCL_IB_TC=106", "13 A=1",
	}, read("launch.json", `{
  // VS Code has comments
  "configurations": [{
    "name": "train", "args": ["--x", "y"], "url": "http://x", /* and
    "env": { */ "env": {"NCCL_DEBUG": "INFO",
      "FOO": "${workspaceFolder}",
      "NCCL_ALGO": "Ring",
    },
  },
  {
    "environment": [{"name": "NCCL_PROTO", "value": "LL"}, {"name": "x y", "value": 1}]
  }],
  "NCCL_IB_TC": 106, "note": "A=1"
}
`))
	assert.Equal(t, []string{"1 NCCL_ALGO=x"}, read("-", `{"env": {"NCCL_ALGO": "x"}}`))
}

// Settings of different containers or configurations do not apply together.
func TestServicesAreApart(t *testing.T) {
	apart := "services:\n  a:\n    environment:\n      NCCL_MIN_CTAS: 8\n" +
		"  b:\n    environment:\n      NCCL_MAX_CTAS: 4\n"
	assert.Empty(t, Lint(ParseFile("a.yaml", []byte(apart)), Found{}))
	together := "services: {a: {environment: {NCCL_MIN_CTAS: 8, NCCL_MAX_CTAS: 4}}}"
	assert.Len(t, Lint(ParseFile("a.yaml", []byte(together)), Found{}), 1)
}
