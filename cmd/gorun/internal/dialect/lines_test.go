package dialect

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/launcher/job"
	"gorun/placement"
)

// TestLines compares what command lines set, or why they are refused, with the files in testdata/lines. There "$"
// begins a command line, "export" names the variables of those that follow, and "#" begins a comment. Below a command
// line are the fields of its Invocation and Spec that differ from those of the same command without options, or its
// problems.
func TestLines(t *testing.T) {
	files, err := filepath.Glob("testdata/lines/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			var variables []string
			for line := range strings.Lines(string(want)) {
				words := strings.Fields(line)
				switch {
				case line[0] == '\t':
					continue
				case line[0] == '$':
					line += outcome(strings.Join(words[1:], " "), variables)
				case line[0] == 'e':
					variables = words[1:]
				}
				got.WriteString(line)
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
			}
			require.Equal(t, string(want), got.String(), "if that is right: go test -run ^TestLines . -update")
		})
	}
}

// outcome formats what a command line means, one line for each field or problem.
func outcome(line string, variables []string) (text string) {
	inv, err := parse(line, variables...)
	if err != nil {
		return "\t" + strings.ReplaceAll(err.Error(), "\n", "\n\t") + "\n"
	}
	bare := Invocation{Dialect: inv.Dialect, Spec: job.Spec{Apps: []job.App{{Program: "x", Args: []string{}}}}}
	if name := inv.Dialect.Name + " x"; line != name {
		if plain, err := parse(name, variables...); err == nil {
			bare = plain
		}
	}
	for _, field := range append(unlike(inv, bare), unlike(inv.Spec, bare.Spec)...) {
		text += "\t" + field + "\n"
	}
	return text
}

// unlike formats the fields that differ between two structs.
func unlike[T any](of, other T) (fields []string) {
	v, w := reflect.ValueOf(of), reflect.ValueOf(other)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.IsExported() && field.Name != "Spec" && !reflect.DeepEqual(v.Field(i).Interface(), w.Field(i).Interface()) {
			fields = append(fields, field.Name+": "+shown(v.Field(i)))
		}
	}
	return fields
}

// enums are the names of values that have no String method.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[job.CountKind]():       {"unset", "fixed", "auto", "gpu", "cpu", "core", "device"},
	reflect.TypeFor[job.Start]():           {"auto", "exec", "python", "module"},
	reflect.TypeFor[job.StoreMode]():       {"auto", "gorun", "rank0"},
	reflect.TypeFor[job.StdinKind]():       {"rank", "all", "none", "some"},
	reflect.TypeFor[job.LabelMode]():       {"auto", "always", "never"},
	reflect.TypeFor[job.EarlyExit]():       {"allow", "warn", "fail"},
	reflect.TypeFor[job.OnHang]():          {"stop", "report", "stop-busy"},
	reflect.TypeFor[placement.RankOrder](): {"round-robin", "span", "fill"},
}

// shown formats a value without what is zero or empty in it.
func shown(v reflect.Value) string {
	if names := enums[v.Type()]; names != nil {
		return names[v.Uint()]
	}
	var parts []string
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return shown(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, shown(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Struct:
		for field, value := range v.Fields() {
			isEmpty := value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
			if field.IsExported() && !isEmpty && value.Kind() != reflect.Func {
				parts = append(parts, field.Name+": "+shown(value))
			}
		}
		if parts != nil || v.IsZero() {
			return "{" + strings.Join(parts, ", ") + "}"
		}
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Func:
		return "a text"
	}
	return fmt.Sprint(v.Interface())
}
