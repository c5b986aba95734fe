package nccl

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// deepest is the nesting limit for scripts within scripts: ssh a "ssh b 'A=1 x'".
const deepest = 4

// remoteValues are the options of each command that take a value. They separate the options from the remote
// command.
var remoteValues = map[string]string{
	"ssh":   "BbcDEeFIiJLlmOoPpQRSWw",
	"pdsh":  "wxgXlRtfuS",
	"clush": "wxgXlRtfuoO",
}

// inner returns the parts of a command that another shell reads: the remote command of ssh, pdsh and clush,
// and the argument of bash -c.
func inner(command []word) (scripts []word) {
	for i, w := range command {
		name := path.Base(w.text)
		switch rest := command[i+1:]; {
		case remoteValues[name] != "":
			if script := remote(name, rest); script.text != "" {
				return []word{script} // the rest of the command is for that shell
			}
		case slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, name):
			if script := shellText(rest); script.text != "" {
				scripts = append(scripts, script)
			}
		}
	}
	return scripts
}

// remote returns what a command passes to a shell on another host. Like ssh it joins the words with blanks,
// without their quotes.
func remote(name string, words []word) word {
	at := 0
	for ; at < len(words) && strings.HasPrefix(words[at].text, "-"); at++ {
		if text := words[at].text; len(text) == 2 && strings.Contains(remoteValues[name], text[1:]) {
			at++
		}
	}
	if name == "ssh" {
		at++ // skip the host
	}
	if at >= len(words) {
		return word{}
	}
	texts := make([]string, 0, len(words)-at)
	for _, w := range words[at:] {
		texts = append(texts, w.text)
	}
	return word{text: strings.Join(texts, " "), line: words[at].line}
}

// shellText returns the argument of -c or -lc.
func shellText(words []word) word {
	for i, w := range words {
		switch {
		case !strings.HasPrefix(w.text, "-"):
			return word{}
		case !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c") && i+1 < len(words):
			return words[i+1]
		}
	}
	return word{}
}

// within adds the assignments in scripts that a command passes to other shells. They apply only there.
func (s *shell) within(command []word, path string) {
	if s.depth >= deepest {
		return
	}
	for _, script := range inner(command) {
		read := shell{text: script.text, line: script.line, exported: map[string]bool{}, depth: s.depth + 1}
		s.branch++
		for _, a := range read.all() {
			a.branch = path + "/" + strconv.Itoa(s.branch) + a.branch
			s.found = append(s.found, a)
		}
	}
}
