package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sshHosts returns names of hosts in ssh's files that begin with a prefix. It contacts none, and skips a file that it
// cannot read.
func sshHosts(prefix string) []string {
	names, read := map[string]bool{}, map[string]bool{}
	add := func(name []byte) {
		if bytes.HasPrefix(name, []byte(prefix)) && len(names) < maxCandidates && isPlain(string(name)) {
			names[string(name)] = true
		}
	}
	files := map[string]string{"/etc/ssh": "/etc/ssh/ssh_"} // by directory: how their names begin
	if home := os.Getenv("HOME"); home != "" {
		files[home+"/.ssh"] = home + "/.ssh/"
	}
	for dir, begin := range files {
		addConfigHosts(begin+"config", dir, read, add)
		addKnownHosts(readRegular(begin+"known_hosts"), add)
		addKnownHosts(readRegular(begin+"known_hosts2"), add)
	}
	return slices.Sorted(maps.Keys(names))
}

// readRegular reads a file that is no pipe or device.
func readRegular(file string) []byte {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, _ := os.ReadFile(file) // what can be read
	return text
}

// addKnownHosts adds the names of lines such as "node1,[node2]:2222 ssh-ed25519 AAAA…".
func addKnownHosts(text []byte, add func([]byte)) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 || line[0] == '#' || line[0] == '@' || line[0] == '|' {
			continue // a comment, a mark, a hashed name
		}
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			continue
		}
		for name := range bytes.SplitSeq(line[:end], []byte(",")) {
			if inner, ok := bytes.CutPrefix(name, []byte("[")); ok {
				name, _, _ = bytes.Cut(inner, []byte("]"))
			}
			add(name)
		}
	}
}

// addConfigHosts adds the names that Host lines of a file list, and of those that it includes. Relative paths are below
// dir.
func addConfigHosts(file, dir string, read map[string]bool, add func([]byte)) {
	if read[file] || len(read) == 100 { // files
		return
	}
	read[file] = true
	for line := range bytes.Lines(readRegular(file)) {
		words := strings.Fields(strings.NewReplacer("=", " ", `"`, "").Replace(string(line)))
		if len(words) < 2 {
			continue
		}
		switch strings.ToLower(words[0]) {
		case "host":
			for _, name := range words[1:] {
				add([]byte(name))
			}
		case "include":
			literal := strings.NewReplacer(`\`, `\\`, "[", `\[`)
			for _, pattern := range words[1:] {
				if below, ok := strings.CutPrefix(pattern, "~/"); ok {
					pattern = filepath.Join(literal.Replace(os.Getenv("HOME")), below)
				} else if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(literal.Replace(dir), pattern)
				}
				files, _ := filepath.Glob(pattern) // none if the pattern is malformed
				for _, included := range files {
					addConfigHosts(included, dir, read, add)
				}
			}
		}
	}
}
