package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// bannedWords are words and phrases that readers must decode, with plainer ones. They count in help, messages, docs,
// comments, names of files and the parts of identifiers, also across line ends.
var bannedWords = []struct{ phrases, instead string }{
	{"is none, are none", "if none exists; is not a"},
	{"so many", "N; the number of"},
	{"told", "knows, reports, receives"},
	{"called mpirun, called mpiexec, called torchrun", "as mpirun"},
	{"hear, hears, heard", "receives, learns"},
	{"by which", "that; with"},
	{"behind which", "after which; that hides"},
	{
		"who asks, who ask, who comes, who come, who goes, who wants, who waits, who knows, who does",
		"the noun: a client, a peer, you",
	},
	{"that which, those that there are, what is there, what is left, what they meet by", "the noun"},
	{"goes past, in vain, in order that", "exceeds; failed; so that"},
	{
		"runs backwards, is here twice, is not regarded, speaks version, hand on, hands on, the way to the world",
		"ends before it starts; two have it; ignored; uses; pass on; proxies",
	},
	{"end in order, ends in order, ended in order, ending in order", "stop gracefully"},
	{"he, him, his", "you; it"},
	{"stands", "is; runs"},
	{"has nobody, nobody else's", "without"},
	{"wish, wishes, wished", "request, option, spec"},
	{"remark, remarks, remarked", "hint, note, warning"},
	{"stranger, strangers", "unknown peer; another program"},
	{"guest, guests", "peer; virtual machine"},
	{"kin", "family; group"},
	{"seat, seats, seated, seating", "slot; layout"},
	{"homeless, stray, strays", "orphan; without a place"},
	{"fold, folds, folded, folding", "node list, host range; merged"},
	{"vouch, vouches, vouched", "handshake; confirm"},
	{"door, doors, doorway", "listener"},
	{"a spell, the spell, each spell, every spell, no spell, pace, beat, beats", "period, interval, heartbeat; overrides"},
}

// allowedWords are uses of banned words in the sense of their field, and texts of others. A file ending in / is a
// folder.
var allowedWords = []struct{ file, phrase, reason string }{
	{"internal/arch/words_test.go", "", "lists the words"},
	{"internal/interop/guest", "guest", "a virtual machine's guest, as in KVM and qemu"},
	{"internal/interop/doc.go", "guest", "names that package"},
	{"internal/testneeds/guest.go", "guest", "what that package needs"},
	{"internal/arch/calls_test.go", "guest", "names that package"},
	{"launcher/doctor/inspect/", "seat", "systemd's /run/systemd/seats"},
	{".ci/setup", "guest", "the kernel for that package"},
}

// isAllowed reports whether a row of allowedWords allows a phrase in file.
func isAllowed(file, phrase string) bool {
	for _, row := range allowedWords {
		if strings.HasPrefix(file, row.file) && (row.phrase == "" || row.phrase == strings.TrimSuffix(phrase, "s")) {
			return true
		}
	}
	return false
}

// word is one of a text: lower case, of an identifier one part.
type word struct {
	text       string
	start, end int // bytes
}

// wordsOf splits text into words, and identifiers into theirs: "numSeats", "NUM_SEATS" → num, seats.
func wordsOf(text string) (all []word) {
	start := -1
	flush := func(end int) {
		if start >= 0 {
			all = append(all, word{strings.ToLower(text[start:end]), start, end})
		}
		start = -1
	}
	isUpper := func(at int) bool { return at < len(text) && 'A' <= text[at] && text[at] <= 'Z' }
	isLower := func(at int) bool { return at < len(text) && 'a' <= text[at] && text[at] <= 'z' }
	for i := range len(text) {
		switch {
		case isUpper(i) && i > 0 && (isLower(i-1) || isUpper(i-1) && isLower(i+1)):
			flush(i)
			start = i
		case isUpper(i) || isLower(i) || text[i] == '\'' && start >= 0 && isLower(i+1):
			if start < 0 {
				start = i
			}
		default:
			flush(i)
		}
	}
	flush(len(text))
	return all
}

// insteadOf returns the advice for a banned phrase.
func insteadOf(phrase []string) string {
	for _, row := range bannedWords {
		if slices.Contains(strings.Split(row.phrases, ", "), strings.Join(phrase, " ")) {
			return row.instead
		}
	}
	return ""
}

// phrases maps the first word of each banned phrase to the phrases.
func phrases() map[string][][]string {
	byFirst := map[string][][]string{}
	for _, row := range bannedWords {
		for phrase := range strings.SplitSeq(row.phrases, ", ") {
			words := strings.Fields(phrase)
			byFirst[words[0]] = append(byFirst[words[0]], words)
		}
	}
	return byFirst
}

// isPhrase reports whether words begin with phrase, with only blanks, line ends, marks of comments or the
// concatenation of strings between the words.
func isPhrase(text string, words []word, phrase []string) bool {
	if len(words) < len(phrase) {
		return false
	}
	for i, want := range phrase {
		if words[i].text != want || i > 0 && strings.Trim(text[words[i-1].end:words[i].start], " \t\n/*#+\"_") != "" {
			return false
		}
	}
	return true
}

// isDoubleGenitive reports whether words begin with "of" and a possessive without the noun that belongs to it.
func isDoubleGenitive(text string, words []word) bool {
	if len(words) < 3 || words[0].text != "of" || !strings.HasSuffix(words[1].text, "'s") ||
		words[0].end+1 != words[1].start {
		return false
	}
	after := text[words[1].end:words[2].start]
	switch words[2].text {
	case "that", "which", "and", "or", "but", "in", "is", "has", "as", "for", "to", "with", "by", "on", "at",
		"from":
		return true
	}
	return strings.ContainsAny(after, ".,;:)\"")
}

// banned returns where texts have banned words that no row of allowedWords allows.
func banned(texts map[string]string) (problems []string) {
	byFirst := phrases()
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		text := file + "\n" + texts[file]
		words := wordsOf(text)
		for i := range words {
			for _, phrase := range byFirst[words[i].text] {
				if !isPhrase(text, words[i:], phrase) {
					continue
				}
				found := text[words[i].start:words[i+len(phrase)-1].end]
				isCode := found == "is None" || i > 0 && words[i-1].text == "equal" && words[i].text == "fold"
				if !isCode && !isAllowed(file, strings.ToLower(found)) {
					problems = append(problems, fmt.Sprintf("%s:%d: %q: write %s", file,
						strings.Count(text[:words[i].start], "\n"), found, insteadOf(phrase)))
				}
			}
			if isDoubleGenitive(text, words[i:]) && !isAllowed(file, "") {
				problems = append(problems, fmt.Sprintf("%s:%d: of %q lacks its noun", file,
					strings.Count(text[:words[i].start], "\n"), words[i+1].text))
			}
		}
	}
	return problems
}

// writtenFiles reads every text file of the module.
func writtenFiles(t *testing.T) map[string]string {
	t.Helper()
	root, texts := testneeds.Repository(t), map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil || at == root:
			return err
		case entry.IsDir():
			if strings.HasPrefix(name, ".") && name != ".ci" || path.Dir(at) == root && (name == "bin" || name == "build") {
				return filepath.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(at)
		if relative, ok := strings.CutPrefix(at, root+"/"); ok && utf8.Valid(text) && path.Ext(at) != ".sum" {
			texts[relative] = string(text)
		}
		return err
	}))
	return texts
}

func TestWords(t *testing.T) { report(t, banned(writtenFiles(t))) }

func TestBannedWordsAreFound(t *testing.T) {
	for text, found := range map[string]int{
		"the ports, by\n\t// which ranks meet":  1,
		`"so " +` + "\n" + `"many"`:             1,
		"func numSeats() {}":                    1,
		"WISH_LIST":                             1,
		"an option of Slurm's, for instance":    1,
		"an option of Slurm's srun; the server": 0,
		"strings.EqualFold(a, b) is None":       0,
		"so, many":                              0,
	} {
		require.Len(t, banned(map[string]string{"a.go": text}), found, text)
	}
	require.Len(t, banned(map[string]string{"door.go": ""}), 1, "names of files count, too")
	require.Empty(t, banned(map[string]string{"internal/interop/guest/a.go": "guests"}))
}
