package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// module is the path before every import of our own.
const module = "gorun"

// source is one parsed Go file of this module.
type source struct {
	file string // slash-separated, from the module's root
	room string // the folder: "launcher/job", "." for the root
	test bool
	tree *ast.File
	pos  *token.FileSet
}

// parse reads one file; text may be nil to read it from dir.
func parse(dir, file string, text any) (source, error) {
	pos := token.NewFileSet()
	tree, err := parser.ParseFile(pos, filepath.Join(dir, file), text, parser.SkipObjectResolution)
	return source{file: file, room: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), tree: tree, pos: pos}, err
}

// sources parses every Go file of the module except fixtures and hidden folders.
func sources(t *testing.T) []source {
	t.Helper()
	root := testneeds.Repository(t)
	var all []source
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := at != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"))
			if hidden || name == "testdata" || at == filepath.Join(root, "bin") || at == filepath.Join(root, "build") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		parsed, err := parse(root, filepath.ToSlash(relative), nil)
		all = append(all, parsed)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// text is the file as it is.
func (s source) text(t *testing.T) []byte {
	text, err := os.ReadFile(s.pos.Position(s.tree.Pos()).Filename)
	require.NoError(t, err)
	return text
}

// sample parses text as if it stood in file, for tests of the rules themselves.
func sample(t *testing.T, file, text string) []source {
	t.Helper()
	parsed, err := parse("", file, text)
	require.NoError(t, err)
	return []source{parsed}
}

// imports returns the paths that s imports, by the name under which the file uses each.
func (s source) imports() map[string]string {
	byName := map[string]string{}
	for _, spec := range s.tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepted it as a string
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			name = imported
		}
		byName[name] = imported
	}
	return byName
}

// line is where n stands, as file:line.
func (s source) line(n ast.Node) string {
	return s.file + ":" + strconv.Itoa(s.pos.Position(n.Pos()).Line)
}

// within reports whether room is parent or a folder below it.
func within(room, parent string) bool {
	return room == parent || strings.HasPrefix(room, parent+"/")
}

// declared calls visit for every top-level declaration of s with the name of the function that it is ("" for others;
// methods without their receiver).
func (s source) declared(visit func(name string, decl ast.Decl)) {
	for _, decl := range s.tree.Decls {
		name := ""
		if function, ok := decl.(*ast.FuncDecl); ok {
			name = function.Name.Name
		}
		visit(name, decl)
	}
}
