package main

import (
	"slices"
	"strings"

	"gorun/env/nccl"
	"gorun/launcher/doctor"
)

// withoutValues removes the values of settings such as NCCL_DEBUG=INFO.
func withoutValues(words []string) []string {
	names := make([]string, len(words))
	for i, word := range words {
		names[i], _, _ = strings.Cut(word, "=")
	}
	return names
}

// areAll reports whether all of at least one word are such names.
func areAll(words []string, is func(string) bool) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return !is(word) })
}

// isVariable reports whether a word is the name of a known variable, or a pattern of such names. Other words may be
// names, too, but are more likely a text: rank, debug.
func isVariable(word string) bool {
	return (strings.Contains(word, "_") || strings.ToUpper(word) == word) && isExplained(word)
}

// misspelled returns "did you mean NCCL_DEBUG?" for a single word that is nearly the name of a variable, or "".
func misspelled(words []string) string {
	if len(words) != 1 || !strings.Contains(words[0], "_") || strings.ToUpper(words[0]) != words[0] {
		return ""
	}
	if near := nccl.Nearest(words[0], nccl.Names()); near != nil {
		return unknownVariable(words[0])
	}
	return ""
}

// isCheck reports whether a word is the name of a check of gorun doctor.
func isCheck(word string) bool {
	_, known := doctor.Find(word)
	return known
}
