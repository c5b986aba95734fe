package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"gorun/cmd/gorun/internal/show"
	"gorun/comm/bench"
	"gorun/internal/testneeds"
	"gorun/launcher/job"
	"gorun/launcher/record"
	"gorun/launcher/registry"
	"gorun/placement/draw"
)

// document is a kind of JSON that gorun writes.
type document struct {
	kind, source string
	fields       any
}

// documents are all kinds of JSON that gorun writes, with the commands that write them and the types of their fields.
var documents = []document{
	{"plan", "`gorun --dry-run --json`, `gorun bench --dry-run --json`", planJSON{}},
	{"report", "`gorun --report FILE`, `gorun report --json`", reportJSON{}},
	{"jobs", "`gorun ps --json`", jobList{}},
	{"evidence", "`index.json` of `gorun evidence`", evidenceIndex{}},
	{"history", "`gorun ps -a --json`", pastJobs{}},
	{"diff", "`gorun diff --json`", diffJSON{}},
	{"record", "the first line of a record", record.Start{}},
	{"printed", "a record, at its end", printedJSON{}},
	{"event", "`gorun --events FILE`, as lines, and a record", record.Event{}},
	{"nccl", "`gorun ps --nccl --json`", registry.NCCL{}},
	{"environment", "`gorun env --json`", environment{}},
	{"variables", "`gorun explain VARIABLE --json`", variableList{}},
	{"errors", "`gorun explain ERROR --json`, `gorun explain --list --json`", errorList{}},
	{"checks", "`gorun explain CHECK --json`, `gorun doctor --list --json`", checkList{}},
	{"lint", "`gorun lint --json`", lintJSON{}},
	{"doctor", "`gorun doctor --json`", diagnosisJSON{}},
	{"hosts", "`gorun hosts check --json`", hostsJSON{}},
	{"quarantine", "`gorun hosts quarantine --json`", quarantineJSON{}},
	{"topology", "`gorun topo --json`", draw.Data{}},
	{"bench", "`gorun bench --json`", bench.Report{}},
	{"version", "`gorun version --json`", versionJSON{}},
}

const schemaDialect = "https://json-schema.org/draft/2020-12/schema"

// member is a field of an object whose order matters.
type member struct {
	key   string
	value any
}

type object []member

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		value := new(bytes.Buffer)
		enc := json.NewEncoder(value)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%c%q:%s", "{,"[min(i, 1)], m.key, value)
	}
	return append(b.Bytes(), '}'), nil
}

// schemas generates the schemas of Go types. The comments of fields are their descriptions.
type schemas struct {
	sources
	names map[reflect.Type]string
	order []reflect.Type // of names
}

// sources has what the sources say about Go types.
type sources struct {
	root     string
	comments map[string]string
	fields   map[reflect.Type][]field
}

func (s sources) schemas() *schemas { return &schemas{sources: s, names: map[reflect.Type]string{}} }

// field is a field of a JSON object.
type field struct {
	key, comment string
	typ          reflect.Type
	optional     bool
}

// fieldsOf returns the fields of a struct, with those of embedded structs.
func (s sources) fieldsOf(typ reflect.Type) (list []field) {
	if list = s.fields[typ]; list != nil {
		return slices.Clip(list)
	}
	defer func() { s.fields[typ] = list }()
	keys := map[string]string{} // by Go name
	var comment string
	for f := range typ.Fields() {
		tag, given := f.Tag.Lookup("json")
		key, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && !given {
			list = append(list, s.fieldsOf(indirect(f.Type))...)
		}
		if !given || key == "-" {
			continue
		}
		keys[f.Name] = key
		text := s.commentOf(typ, f.Name)
		if text == "" && regexp.MustCompile(`\b`+f.Name+`\b`).MatchString(comment) {
			text = comment // a comment on several fields
		}
		comment = text
		list = append(list, field{key, text, f.Type, options != ""})
	}
	for i := range list {
		for name, key := range keys { // as users know them
			if name != strings.ToUpper(name) {
				list[i].comment = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(list[i].comment, key)
			}
		}
	}
	for i := range list {
		list[i].comment = clauseAbout(list[i].key, list, list[i].comment)
	}
	return list
}

// clauseAbout returns what a comment, which may be on several fields, says of one.
func clauseAbout(key string, all []field, text string) string {
	sentence := func(of string) []int {
		return regexp.MustCompile("(?i)(?:^|[.;] )(" + of + ") ").FindStringSubmatchIndex(text)
	}
	if own := sentence(key); own != nil {
		text = text[own[2]:]
	}
	for _, f := range all {
		if next := sentence(f.key); f.key != key && next != nil && next[0] > 0 {
			text = text[:next[0]]
		}
	}
	begins := func(verbs string) *regexp.Regexp { return regexp.MustCompile("(?i)^" + key + " (" + verbs + ") ") }
	text = begins("reports that|reports whether|says that").ReplaceAllString(text, "whether ")
	text = begins("is|are|has|says|describes?|explains").ReplaceAllString(text, "")
	if !strings.Contains(text, ". ") && !strings.HasSuffix(text, "..") {
		text = strings.TrimSuffix(text, ".")
	}
	return text
}

func indirect(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// commentOf returns the comment above a field of a struct, or else behind it.
func (s sources) commentOf(typ reflect.Type, name string) string {
	dir := strings.TrimPrefix(typ.PkgPath(), "gorun/")
	if dir == "main" {
		dir = "cmd/gorun"
	}
	if _, read := s.comments[dir]; !read {
		s.comments[dir] = ""
		files, _ := filepath.Glob(filepath.Join(s.root, dir, "*.go"))
		for _, file := range files {
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				panic(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool { return s.addComments(dir, n) })
		}
	}
	return s.comments[dir+"."+typ.Name()+"."+name]
}

func (s sources) addComments(dir string, n ast.Node) bool {
	spec, isType := n.(*ast.TypeSpec)
	if !isType {
		return true
	}
	if fields, isStruct := spec.Type.(*ast.StructType); isStruct {
		for _, f := range fields.Fields.List {
			text := f.Doc.Text() + f.Comment.Text()
			for _, name := range f.Names {
				s.comments[dir+"."+spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(text), " ")
			}
		}
	}
	return false
}

var (
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	formats  = map[reflect.Type]object{ // of types that marshal themselves
		reflect.TypeFor[time.Time]():       {{"type", "string"}, {"format", "date-time"}},
		reflect.TypeFor[job.Seconds]():     {{"type", "number"}},
		reflect.TypeFor[job.Streams]():     {{"type", "integer"}},
		reflect.TypeFor[json.RawMessage](): {},
	}
)

// of returns the schema of a type; structs are references.
func (s *schemas) of(typ reflect.Type) object {
	if known, ok := formats[typ]; ok {
		return known
	}
	switch {
	case typ.Implements(textType) && typ.Kind() == reflect.Uint8:
		return object{{"enum", texts(typ)}}
	case typ.Implements(textType):
		return object{{"type", "string"}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return s.of(typ.Elem())
	case reflect.Struct:
		return object{{"$ref", "#/$defs/" + s.name(typ)}}
	case reflect.Slice, reflect.Array:
		items := s.of(typ.Elem())
		if typ.Elem().Kind() == reflect.Pointer && items[0].key == "type" {
			items = object{{"type", []any{items[0].value, "null"}}}
		}
		return object{{"type", "array"}, {"items", items}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", s.of(typ.Elem())}}
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Float64:
		return object{{"type", "number"}}
	}
	return object{{"type", "integer"}}
}

// texts returns all values of an enumeration.
func texts(typ reflect.Type) (all []string) {
	defer func() { _ = recover() }() // beyond the last one
	for i := range 100 {
		v := reflect.New(typ).Elem()
		v.SetUint(uint64(i))
		text, _ := v.Interface().(encoding.TextMarshaler).MarshalText()
		if i > 0 && slices.Contains(all, string(text)) {
			break
		}
		all = append(all, string(text))
	}
	return all
}

// name returns a struct's name in $defs, and queues it.
func (s *schemas) name(typ reflect.Type) string {
	if name, known := s.names[typ]; known {
		return name
	}
	name := strings.ToUpper(typ.Name()[:1]) + strings.TrimSuffix(typ.Name(), "JSON")[1:]
	isKind := slices.ContainsFunc(documents, func(d document) bool { return d.kind == strings.ToLower(name) })
	if isKind || slices.Contains(slices.Collect(maps.Values(s.names)), name) { // headings of a page differ
		pkg := path.Base(typ.PkgPath())
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	s.names[typ] = name
	s.order = append(s.order, typ)
	return name
}

// properties returns the part of a schema that describes a struct, after some fields of every document.
func (s *schemas) properties(fields []field) object {
	properties, required := object{}, []string{}
	for _, f := range fields {
		properties = append(properties, member{f.key, append(slices.Clip(s.of(f.typ)), member{"description", f.comment})})
		if !f.optional {
			required = append(required, f.key)
		}
	}
	return object{{"type", "object"}, {"properties", properties}, {"required", required}}
}

// document returns the schema of a kind.
func (s *schemas) document(kind string, fields any) object {
	schema := object{{"$schema", schemaDialect}, {"$id", "urn:gorun:schema:1:" + kind}, {"title", "gorun " + kind}}
	all := append(s.fieldsOf(reflect.TypeFor[show.Envelope]()), s.fieldsOf(reflect.TypeOf(fields))...)
	schema = append(schema, s.properties(all)...)
	properties := schema[4].value.(object)
	properties[2] = member{"kind", append(object{{"const", kind}}, properties[2].value.(object)[1:]...)}
	definitions := object{}
	for i := 0; i < len(s.order); i++ {
		definitions = append(definitions, member{s.names[s.order[i]], s.properties(s.fieldsOf(s.order[i]))})
	}
	if len(definitions) > 0 {
		schema = append(schema, member{"$defs", definitions})
	}
	return schema
}

//go:generate go test -run ^TestDocs -count=1 . -update

// TestDocsJSON keeps docs/reference/schema and docs/reference/json.md equal to the types.
func TestDocsJSON(t *testing.T) {
	reference := filepath.Join(testneeds.Repository(t), "docs", "reference")
	s := sources{testneeds.Repository(t), map[string]string{}, map[reflect.Type][]field{}}
	files := map[string]string{"json.md": jsonPage(s.schemas())}
	for _, d := range documents {
		text, err := json.MarshalIndent(s.schemas().document(d.kind, d.fields), "", "  ")
		require.NoError(t, err)
		files["schema/"+d.kind+".json"] = string(text) + "\n"
	}
	for name, want := range files {
		require.NotContains(t, want, `"description": ""`, "%s: comment on each field of the Go types", name)
		file := filepath.Join(reference, name)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(text), "run make docs")
	}
	shipped, err := os.ReadDir(filepath.Join(reference, "schema"))
	require.NoError(t, err)
	require.Len(t, shipped, len(documents))
}

// jsonPage is docs/reference/json.md.
func jsonPage(s *schemas) string {
	var b strings.Builder
	b.WriteString(jsonIntroduction)
	for _, d := range documents {
		fmt.Fprintf(&b, "| [%s](#%[1]s) | %s | [%[1]s.json](schema/%[1]s.json) |\n", d.kind, d.source)
	}
	for _, d := range documents {
		fmt.Fprintf(&b, "\n## %s\n\n", d.kind)
		s.table(&b, s.fieldsOf(reflect.TypeOf(d.fields)))
	}
	b.WriteString("\n## Types\n\nObjects that the documents above contain.\n")
	for i := 0; i < len(s.order); i++ {
		fmt.Fprintf(&b, "\n### %s\n\n", s.names[s.order[i]])
		s.table(&b, s.fieldsOf(s.order[i]))
	}
	return b.String()
}

func (s *schemas) table(b *strings.Builder, fields []field) {
	b.WriteString("| field | type | meaning |\n| --- | --- | --- |\n")
	for _, f := range fields {
		optional := ""
		if f.optional {
			optional = ", optional"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n", f.key, typeText(s.of(f.typ)), optional, f.comment)
	}
}

// typeText describes a schema in a few words.
func typeText(schema object) string {
	if len(schema) == 0 {
		return "any"
	}
	switch m := schema[0]; {
	case m.key == "$ref":
		name := strings.TrimPrefix(m.value.(string), "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case m.key == "enum":
		return "`" + strings.Join(m.value.([]string), "`, `") + "`"
	case m.value == "array":
		return "list of " + typeText(schema[1].value.(object))
	case m.value == "object":
		return "object of " + typeText(schema[1].value.(object))
	case len(schema) > 1 && schema[1].key == "format":
		return "time"
	case reflect.TypeOf(m.value).Kind() == reflect.Slice:
		return m.value.([]any)[0].(string) + " or null"
	}
	return schema[0].value.(string)
}

// Package show writes what encoding/json does, except for the envelope.
func TestJSONOfDocuments(t *testing.T) {
	for _, d := range documents {
		full := reflect.New(reflect.TypeOf(d.fields)).Elem()
		fill(full, 0)
		for _, value := range []any{full.Interface(), d.fields} {
			var want, got bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			require.NoError(t, enc.Encode(value))
			if want.Len() > len("{}\n") {
				require.NoError(t, show.Line(&got, d.kind, value))
				_, fields, _ := strings.Cut(got.String(), `"kind":"`+d.kind+`",`)
				require.Equal(t, want.String(), "{"+fields, d.kind)
			}
		}
	}
}

// fill gives a value, and to some depth all that it contains, values that are not zero.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(`a "\ü<` + "\n"[:depth%2])
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		if depth < 8 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte("[1]"))
		} else if depth < 8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(1), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				fill(f, depth+1)
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}

// checkDocument validates a document of gorun against the schema of its kind. It also refuses fields that the schema
// does not have, as later versions of gorun may add them for users.
func checkDocument(text []byte) error {
	var envelope show.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return err
	}
	file, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "schema", envelope.Kind+".json"))
	if err != nil {
		return err
	}
	strict := bytes.ReplaceAll(file, []byte(`"properties": {`), []byte(`"additionalProperties": false, "properties": {`))
	var schema jsonschema.Schema
	if err := json.Unmarshal(strict, &schema); err != nil {
		return err
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return resolved.Validate(value)
}

func TestCheckDocumentRefuses(t *testing.T) {
	good := `{"schema": 1, "gorun": "x", "kind": "jobs", "jobs": []}`
	require.NoError(t, checkDocument([]byte(good)))
	for _, change := range [][2]string{
		{`[]`, `null`},
		{`[]`, `[{}]`},
		{`"gorun": "x", `, ``},
		{`"jobs": []`, `"jobs": [], "more": 1`},
		{`1`, `"1"`},
		{`"jobs",`, `"plan",`},
		{`"jobs",`, `"nothing",`},
	} {
		require.Error(t, checkDocument([]byte(strings.Replace(good, change[0], change[1], 1))), "%v", change)
	}
}
