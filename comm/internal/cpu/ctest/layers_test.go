package ctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layers are the files of the engine, without their endings, from the bottom up. Those of one layer know each other
// only from left to right.
var layers = []string{
	"names", "kernels", "segment", "call", "blocks", "state", "bell", "whole", "failure", "deadlock", "wait", "line",
	"ring", "calls",
	"lines moves reductions pairs direct", "local", "net", "team", "hosts_move hosts_reduce", "hosts", "engine", "do",
}

var (
	includes    = regexp.MustCompile(`(?m)^#include "([a-z_0-9]+)\.h"$`)
	definitions = regexp.MustCompile(`(?m)^[a-z][a-z_ ]*[ *]([a-z_0-9]+)\([^;]*\) \{`)
	words       = regexp.MustCompile(`[A-Za-z_][A-Za-z_0-9]*`)
	comments    = regexp.MustCompile(`//.*|"(?:[^"\\]|\\.)*"`)
)

// TestLayers keeps the engine's files from calling each other in circles: each includes, and calls, only what is below
// it.
func TestLayers(t *testing.T) {
	order := strings.Fields(strings.Join(layers, " "))
	files, err := filepath.Glob("../*.[ch]")
	require.NoError(t, err)
	texts, homes := map[string]string{}, map[string]string{}
	for _, file := range files {
		base := filepath.Base(file)
		name := layerOf(base)
		require.Contains(t, order, name, "%s is in no layer", base)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[base] = string(text)
		if filepath.Ext(base) == ".h" {
			continue // what a header declares belongs to the file that defines it
		}
		for _, found := range definitions.FindAllStringSubmatch(texts[base], -1) {
			if !strings.HasPrefix(found[0], "static") {
				homes[found[1]] = name
			}
		}
	}
	require.Greater(t, len(homes), 60)
	for base, text := range texts {
		level := slices.Index(order, layerOf(base))
		for _, found := range includes.FindAllStringSubmatch(text, -1) {
			above := slices.Index(order, layerOf(found[1])) > level
			assert.False(t, above, "%s includes %s.h, a layer above it", base, found[1])
		}
		if filepath.Ext(base) == ".h" {
			continue // declarations name what is defined in the layer; inline functions are held to their includes
		}
		for _, word := range words.FindAllString(comments.ReplaceAllString(text, ""), -1) {
			if home, defined := homes[word]; defined {
				above := slices.Index(order, home) > level
				assert.False(t, above, "%s uses %s of %s, a layer above it", base, word, home)
			}
		}
	}
}

// layerOf is the file's name without its ending; the kernels' files, one for each instruction set, are one.
func layerOf(file string) string {
	name, _, _ := strings.Cut(file, ".")
	if strings.HasPrefix(name, "kernels") {
		return "kernels"
	}
	return name
}
