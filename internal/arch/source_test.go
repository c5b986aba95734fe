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

// module begins every import of this module.
const module = "gorun/"

// source is one parsed Go file of this module.
type source struct {
	file string // slash-separated, relative to the module's root
	room string // folder: "launcher/job", or "." for the root
	test bool
	tree *ast.File
	pos  *token.FileSet
}

// parse parses one file; if text is nil, it reads the file from dir.
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

// text is the unparsed content of the file.
func (s source) text(t *testing.T) []byte {
	text, err := os.ReadFile(s.pos.Position(s.tree.Pos()).Filename)
	require.NoError(t, err)
	return text
}

// sample parses text as the content of file, to test the rules themselves.
func sample(t *testing.T, file, text string) []source {
	t.Helper()
	parsed, err := parse("", file, text)
	require.NoError(t, err)
	return []source{parsed}
}

// imports returns the import paths of s by their local names.
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

// line is the position of n as file:line.
func (s source) line(n ast.Node) string {
	return s.file + ":" + strconv.Itoa(s.pos.Position(n.Pos()).Line)
}

// within reports whether room is parent or a folder below it.
func within(room, parent string) bool {
	return room == parent || strings.HasPrefix(room, parent+"/")
}

// declared calls visit for every top-level declaration of s. name is the function's name, without a receiver, or ""
// for other declarations.
func (s source) declared(visit func(name string, decl ast.Decl)) {
	for _, decl := range s.tree.Decls {
		name := ""
		if function, ok := decl.(*ast.FuncDecl); ok {
			name = function.Name.Name
		}
		visit(name, decl)
	}
}
