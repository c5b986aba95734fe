package wire

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A type that passes between head and agent has a new shape only with a new Version: testdata/shapes has the shape of
// each version, and no line of it ever changes.
func TestShapeOfEachVersion(t *testing.T) {
	var shape strings.Builder
	for _, m := range messages {
		writeShape(&shape, reflect.TypeOf(m), map[reflect.Type]bool{})
	}
	now := fmt.Sprintf("%d %.8x", Version, sha256.Sum256([]byte(shape.String())))
	known, err := os.ReadFile("testdata/shapes")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(known)), "\n")
	require.Equal(t, now, lines[len(lines)-1],
		"types of frames have changed: raise Version, and add the line %q to testdata/shapes", now)
	versions := map[string]bool{}
	for _, line := range lines {
		version, _, _ := strings.Cut(line, " ")
		require.False(t, versions[version], "version %s has two shapes: raise Version", version)
		versions[version] = true
	}
}

// writeShape writes what codec.go goes by: names and kinds of fields, in their order.
func writeShape(b *strings.Builder, typ reflect.Type, seen map[reflect.Type]bool) {
	fmt.Fprintf(b, "%s %s", typ, typ.Kind())
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		writeShape(b, typ.Elem(), seen)
	case reflect.Struct:
		if seen[typ] {
			return
		}
		seen[typ] = true
		for field := range typ.Fields() {
			if field.IsExported() {
				b.WriteString("\n" + field.Name + " ")
				writeShape(b, field.Type, seen)
			}
		}
	}
}
