package output

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a Console under test in a synctest bubble, with the output at its destinations.
type script struct {
	*testing.T
	*Console
	stdout, stderr recorder
}

// step is one step of a script.
type step func(*script)

func out(rank int, text string) step {
	return func(s *script) { s.Write(rank, Stdout, []byte(text)) }
}

func errs(rank int, text string) step {
	return func(s *script) { s.Write(rank, Stderr, []byte(text)) }
}

func end(rank, stream int) step { return func(s *script) { s.End(rank, stream) } }
func notice(line string) step   { return func(s *script) { s.Notice(line) } }
func enter() step               { return func(s *script) { s.LineEntered() } }

// wait lets time pass.
func wait(d time.Duration) step {
	return func(*script) {
		time.Sleep(d) // virtual time
		synctest.Wait()
	}
}

// sees compares the output on stdout since the last comparison.
func sees(want string) step {
	return func(s *script) {
		synctest.Wait()
		assert.Equal(s, want, s.stdout.take())
	}
}

// seesErr compares the output on stderr since the last comparison.
func seesErr(want string) step {
	return func(s *script) {
		synctest.Wait()
		assert.Equal(s, want, s.stderr.take())
	}
}

// play runs the steps on a Console made from cfg, closes it, and compares the remaining output.
func play(t *testing.T, cfg Config, last string, steps []step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{T: t}
		cfg.Stdout.W, cfg.Stderr.W = &s.stdout, &s.stderr
		if cfg.Stdout.Terminal {
			cfg.Stderr = cfg.Stdout
		}
		s.Console = NewConsole(cfg)
		for _, do := range steps {
			do(s)
		}
		require.NoError(t, s.Close(t.Context()))
		assert.Equal(t, last, s.stdout.take(), "written last")
	})
}

func TestPipe(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, tt := range []struct {
		name  string
		ranks int
		label Label
		steps []step
		last  string
	}{
		{"one rank passes as it prints", 1, LabelAuto, []step{
			out(0, ""), out(0, "ab"), sees("ab"), out(0, "c\nd"),
			sees("c\nd"),
		}, ""},
		{"a line waits for its end", 2, LabelAuto, []step{out(0, "ab"), sees(""), out(0, "c\nd"), sees("abc\n")}, "d"},
		{"time shows nothing in a pipe", 2, LabelAuto, []step{out(0, "(Pdb) "), wait(time.Minute), sees("")}, "(Pdb) "},
		{"lines of ranks stay whole", 3, LabelAuto, []step{
			out(0, "a"), out(1, "b"), out(2, "c\n"), sees("c\n"), out(1, "b\n"), sees("bb\n"), out(0, "a\nA"), sees("aa\n"),
		}, "A"},
		{
			"the final partial line has no newline of ours", 2, LabelAuto,
			[]step{out(0, "last"), end(0, Stdout), sees("last")},
			"",
		},
		{"unless another line follows", 2, LabelAuto, []step{
			out(0, "last"), end(0, Stdout), out(1, "more\n"), sees("last\nmore\n"),
		}, ""},
		{"two final partial lines", 2, LabelAuto, []step{
			out(0, "a"), out(1, "b"), end(1, Stdout), end(0, Stdout), sees("b\na"),
		}, ""},
		{"a later attempt's rank begins anew", 2, LabelAuto, []step{
			out(0, "a"), end(0, Stdout), out(0, "b\n"), sees("a\nb\n"),
		}, ""},
		{"carriage returns and binary bytes are bytes", 2, LabelAuto, []step{
			out(0, "\r 10%\r\x00\xff\x1b\r\n"), sees("\r 10%\r\x00\xff\x1b\r\n"),
		}, ""},
		{"labels", 2, LabelAlways, []step{
			out(1, "a\nb\nc"), sees("[1] a\n[1] b\n"), out(0, "\n"), sees("[0] \n"), out(1, "d\n"), sees("[1] cd\n"),
		}, ""},
		{"one rank with labels", 1, LabelAlways, []step{out(0, "a\nb"), sees("[0] a\n")}, "[0] b\n"},
		{
			"a labelled final line ends with a newline", 2, LabelAlways,
			[]step{out(1, "x"), end(1, Stdout), sees("[1] x\n")},
			"",
		},
		{"an endless line is passed on, unchanged while alone", 2, LabelAuto, []step{
			out(0, long), sees(long), out(0, "yy"), sees("yy"), out(0, "z\n"), sees("z\n"), out(0, "w"), sees(""),
		}, "w"},
		{"an endless line ends for another rank's", 2, LabelAuto, []step{
			out(0, long), out(1, "b\n"), sees(long + "\nb\n"), out(0, "yy"), sees(""), out(0, "z\n"), sees("yyz\n"),
		}, ""},
		{"pieces of an endless line are tagged", 2, LabelAlways, []step{
			out(0, "x"), out(0, long[1:]), out(1, "b\n"), out(0, "y\n"), sees("[0] " + long + "\n[1] b\n[0] y\n"),
		}, ""},
		{"an endless line waits for nobody's partial line", 2, LabelAuto, []step{
			out(1, "b"), out(0, long), sees(long), out(1, "b"), out(0, "\n"), sees("\n"),
		}, "bb"},
		{"the end of an endless line, labelled", 2, LabelAlways, []step{
			out(0, long), sees("[0] " + long), end(0, Stdout), sees("\n"),
		}, ""},
		{"ranks that the job does not have are dropped", 2, LabelAuto, []step{out(7, "x\n"), out(-1, "x\n"), sees("")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, Config{Ranks: ranks(tt.ranks), Label: tt.label}, tt.last, tt.steps)
		})
	}
}

func TestStreamsStayApart(t *testing.T) {
	play(t, Config{Ranks: ranks(2)}, "", []step{
		out(0, "o"), errs(0, "e\n"), seesErr("e\n"), sees(""), out(0, "\n"), sees("o\n"),
		errs(0, "torn"), errs(1, "whole\n"), seesErr("whole\n"), errs(0, "?\n"), seesErr("torn?\n"),
	})
}

func TestNotice(t *testing.T) {
	play(t, Config{Ranks: ranks(2)}, "", []step{
		errs(0, "part"), notice("gorun: a"), seesErr("gorun: a\n"), errs(0, "ly\n"), notice("gorun: b\n"),
		seesErr("partly\ngorun: b\n"),
	})
	play(t, Config{Ranks: ranks(1)}, "", []step{
		errs(0, "no newline"), notice("gorun: c"), seesErr("no newline\ngorun: c\n"), errs(0, "more"), seesErr("more"),
	})
}

func TestTerminal(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, tt := range []struct {
		name  string
		steps []step
		last  string
	}{
		{"lines", []step{out(0, "a\n"), out(1, "b"), out(1, "b\n"), sees("[0] a\n[1] bb\n")}, ""},
		{"stderr has a mark", []step{errs(1, "oops\n"), sees("[1]!oops\n")}, ""},
		{"a prompt is shown after a while", []step{
			out(0, "(Pdb) "), wait(ShowAfter - 1), sees(""), wait(1), sees("[0] (Pdb) "), out(0, "x"), sees("x"),
			out(0, "y\n"), sees("y\n"),
		}, ""},
		{"its age counts from its first byte", []step{
			out(0, "a"), wait(ShowAfter / 2), out(0, "b"), wait(ShowAfter / 2), sees("[0] ab"),
		}, "\n"},
		{"a prompt ends for another rank's line", []step{
			out(0, "(Pdb) "), wait(ShowAfter), out(1, "b\n"), sees("[0] (Pdb) \n[1] b\n"),
			out(0, "42\n"), sees("[0] 42\n"),
		}, ""},
		{"but not for its partial line", []step{
			out(0, "(Pdb) "), wait(ShowAfter), sees("[0] (Pdb) "), out(1, "b"), sees(""), out(0, "42\n"), sees("42\n"),
		}, "[1] b\n"},
		{"prompts of two ranks", []step{
			out(0, "a> "), out(1, "b> "), wait(ShowAfter), sees("[0] a> \n[1] b> "), out(0, "A"), wait(ShowAfter),
			sees("\n[0] A"),
		}, "\n"},
		{"stderr ends the prompt of its own rank", []step{
			out(0, "> "), wait(ShowAfter), errs(0, "e\n"), sees("[0] > \n[0]!e\n"),
		}, ""},
		{"an answer at the keyboard ends the prompt's row", []step{
			out(0, "> "), wait(ShowAfter), sees("[0] > "), enter(), out(0, "answer\n"), sees("[0] answer\n"),
		}, ""},
		{"a prompt and a notice", []step{
			out(0, "> "), wait(ShowAfter), notice("gorun: n"), sees("[0] > \ngorun: n\n"), out(0, "x\n"), sees("[0] x\n"),
		}, ""},
		{"the end of a prompt", []step{out(0, "> "), wait(ShowAfter), end(0, Stdout), sees("[0] > \n")}, ""},
		{"the end of an unseen partial line", []step{out(0, "bye"), end(0, Stdout), sees("[0] bye\n")}, ""},
		{"both dialects of line ends", []step{out(0, "a\r\nb\r"), out(0, "\nc\n"), sees("[0] a\n[0] b\n[0] c\n")}, ""},
		{"an endless line", []step{
			out(0, long), sees("[0] " + long), out(0, "y"), sees("y"), out(1, "b\n"), sees("\n[1] b\n"),
			out(0, "z"), sees(""), wait(ShowAfter), sees("[0] z"),
		}, "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, Config{Ranks: ranks(2), Stdout: Destination{Terminal: true, Width: 40}}, tt.last, tt.steps)
		})
	}
}

func TestProgressBars(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		last  string
	}{
		{"updates in place", []step{
			errs(0, bar("10%")), wait(ShowAfter), sees("[0]!10%"), errs(0, bar("20%")), sees("\r[0]!20%"),
			errs(0, bar("30%")+bar("100%")), sees("\r[0]!100%"), errs(0, "\n"), sees(blank(8) + "[0]!100%\n"),
		}, ""},
		{"a carriage return behind the text", []step{
			out(0, "10%\r"), wait(ShowAfter), sees("[0] 10%"), out(0, "20%\r"), sees("\r[0] 20%"), out(0, "\n"),
			sees(blank(7) + "[0] 20%\n"),
		}, ""},
		{"a shorter text wipes the longer one", []step{
			out(0, bar("1000")), wait(ShowAfter), sees("[0] 1000"), out(0, bar("9")), sees(blank(8) + "[0] 9"),
		}, blank(5) + "[0] 9\n"},
		{"a text that is drawn over by a bar", []step{
			out(0, "loading"), wait(ShowAfter), sees("[0] loading"), out(0, bar("done")), sees(blank(11) + "[0] done"),
		}, blank(8) + "[0] done\n"},
		{"a carriage return behind text that is shown", []step{
			out(0, "abc"), wait(ShowAfter), sees("[0] abc"), out(0, "def\r"), sees("def"), out(0, "x"),
			sees(blank(10) + "[0] x"),
		}, blank(5) + "[0] x\n"},
		{"a carriage return alone shows nothing", []step{
			out(0, "\r"), wait(ShowAfter), sees(""), end(0, Stdout), wait(ShowAfter), sees(""),
		}, ""},
		{"after a bar comes an ordinary prompt", []step{
			out(0, bar("100%")+"\n> "), sees("[0] 100%\n"), wait(ShowAfter), sees("[0] > "), out(1, "b\n"), sees("\n[1] b\n"),
		}, ""},
		{"all at once is the last of it", []step{out(0, bar("1")+bar("2")+bar("3")+"\n"), sees("[0] 3\n")}, ""},
		{"a bar stays below other lines", []step{
			out(0, bar("10%")), wait(ShowAfter), sees("[0] 10%"),
			out(1, "b\n"), sees(blank(7) + "[1] b\n" + "[0] 10%"),
			out(0, bar("20%")), sees("\r[0] 20%"),
			notice("gorun: n"), sees(blank(7) + "gorun: n\n" + "[0] 20%"),
			enter(), out(0, bar("30%")), sees("[0] 30%"), wait(2 * barStay), sees(""), out(0, bar("20%")), sees("\r[0] 20%"),
		}, blank(7) + "[0] 20%\n"},
		{"two bars take turns", []step{
			out(0, bar("a1")), out(1, bar("b1")), wait(ShowAfter), sees("[0] a1"),
			wait(barStay - 1), sees(""), wait(1), sees(blank(6) + "[1] b1"),
			out(0, bar("a2")), wait(barStay - 1), out(0, bar("a3")), sees(""), wait(1), sees(blank(6) + "[0] a3"),
			out(1, bar("b2")+"\n"), sees(blank(6) + "[1] b2\n" + "[0] a3"),
		}, blank(6) + "[0] a3\n"},
		{"a bar that nobody sees any more is written at its end", []step{
			out(0, bar("a")), out(1, bar("b")), wait(2 * barStay), sees("[0] a" + blank(5) + "[1] b"), end(1, Stdout),
			sees(blank(5) + "[1] b\n"),
			end(0, Stdout), sees("[0] a\n"),
		}, ""},
		{"a prompt takes the row at once, a bar waits", []step{
			out(0, bar("a")), wait(ShowAfter), sees("[0] a"), out(1, "> "), wait(ShowAfter), sees(blank(5) + "[1] > "),
			out(0, bar("b")), wait(barStay - 1), sees(""), wait(1), sees("\n[0] b"),
		}, blank(5) + "[0] b\n"},
		{"an answered prompt gives the row back to the bar", []step{
			out(0, bar("a")), wait(ShowAfter), sees("[0] a"), out(1, "> "), wait(ShowAfter), sees(blank(5) + "[1] > "),
			out(1, "yes\n"), sees("yes\n[0] a"),
		}, blank(5) + "[0] a\n"},
		{"too wide a bar is cut until it ends", []step{
			out(0, bar(strings.Repeat("█", 30))), wait(ShowAfter), sees("[0] " + strings.Repeat("█", 15)),
			out(0, "\n"), sees(blank(19) + "[0] " + strings.Repeat("█", 30) + "\n"),
		}, ""},
		{"a cut loses no colour's end", []step{
			out(0, bar("\x1b[31m"+strings.Repeat("=", 30)+"\x1b[0m")), wait(ShowAfter),
			sees("[0] \x1b[31m" + strings.Repeat("=", 15) + "\x1b[0m"),
		}, blank(19) + "[0] \x1b[31m" + strings.Repeat("=", 30) + "\x1b[0m\n"},
		{"the keyboard's newline leaves the bar above", []step{
			out(0, bar("a")), wait(ShowAfter), sees("[0] a"), enter(), out(1, "b\n"), sees("[1] b\n[0] a"),
		}, blank(5) + "[0] a\n"},
		{"an endless bar becomes a line", []step{
			out(0, bar("a")), wait(ShowAfter), sees("[0] a"),
			out(0, strings.Repeat("x", MaxLine)), sees(blank(5) + "[0] a" + strings.Repeat("x", MaxLine)), out(0, "y"),
			sees("y"), out(1, "b\n"), sees("\n[1] b\n"),
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, Config{Ranks: ranks(2), Stdout: Destination{Terminal: true, Width: 20}}, tt.last, tt.steps)
		})
	}
}

func TestResize(t *testing.T) {
	play(t, Config{Ranks: ranks(2), Stdout: Destination{Terminal: true, Width: 80}}, "\r       \r[0] 1234\n", []step{
		func(s *script) { s.Resize(8) },
		out(0, bar("1234")), wait(ShowAfter), sees("[0] 123"),
	})
}

func TestUnlabelledTerminal(t *testing.T) {
	play(t, Config{Ranks: ranks(2), Label: LabelNever, Stdout: Destination{Terminal: true}}, "\n", []step{
		out(0, "a\nb"), sees("a\n"), wait(ShowAfter), sees("b"), out(1, "c\n"), sees("\nc\n"), out(0, "d"),
		wait(ShowAfter), sees("d"),
	})
	play(t, Config{Ranks: ranks(1), Stdout: Destination{Terminal: true}}, "", []step{
		out(0, "a\r"), sees("a\r"), errs(0, "b"), sees("b"), notice("gorun: n"), sees("\ngorun: n\n"),
	})
}

func TestShow(t *testing.T) {
	var credits account
	cfg := Config{Ranks: ranks(3), Consumed: credits.consumed, Show: func(r RankInfo) bool { return r.LocalRank == 1 }}
	play(t, cfg, "", []step{
		out(0, "a\n"), out(1, "b\n"), out(2, "c"), sees("b\n"),
		func(s *script) {
			assert.Equal(s, []string{"a"}, s.Tail(0, Stdout))
			assert.Equal(s, 2, credits.of(0, Stdout))
			assert.Equal(s, 1, credits.of(2, Stdout))
		},
	})
}

// TestOneRankTeed has one rank with a label on one stream only, as with torchrun's --tee 1.
func TestOneRankTeed(t *testing.T) {
	one := ranks(1)
	one[0].Tee = Stdout
	play(t, Config{Ranks: one, Stdout: Destination{Terminal: true}}, "", []step{
		out(0, "> "), wait(ShowAfter), sees("[default0]:> "), errs(0, "e"), sees("\ne"), out(0, "x\n"),
		sees("\n[default0]:x\n"),
	})
}

func TestUnknownRanksGiveCredit(t *testing.T) {
	var credits account
	play(t, Config{Ranks: ranks(2), Consumed: credits.consumed}, "", []step{out(7, "x\n"), out(0, "a\n"), sees("a\n")})
	assert.Equal(t, 2, credits.of(7, Stdout))
}

func TestRanksNeedNotBeginAtZero(t *testing.T) {
	cfg := Config{Label: LabelAlways, Ranks: []RankInfo{{Rank: 8}, {Rank: 12}}}
	play(t, cfg, "", []step{out(12, "a\n"), out(0, "b\n"), out(8, "c\n"), sees("[12] a\n[8] c\n")})
}

func TestConsoleIsSilentAfterClose(t *testing.T) {
	var stdout recorder
	c := NewConsole(Config{Stdout: Destination{W: &stdout}, Stderr: Destination{W: &stdout}, Ranks: ranks(2)})
	require.NoError(t, c.Close(t.Context()), "of a Console that was never used")
	c.Write(0, Stdout, []byte("a\n"))
	c.Notice("b")
	c.End(0, Stdout)
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, c.Flush(t.Context()))
	assert.Empty(t, stdout.take())
}

func TestFlush(t *testing.T) {
	var stdout recorder
	c := NewConsole(Config{Stdout: Destination{W: &stdout}, Stderr: Destination{W: &stdout}, Ranks: ranks(2)})
	require.NoError(t, c.Flush(t.Context()))
	c.Write(0, Stdout, []byte("a\nb"))
	require.NoError(t, c.Flush(t.Context()))
	assert.Equal(t, "a\n", stdout.take())
	require.NoError(t, c.Flush(context.Background()))
	require.NoError(t, c.Close(t.Context()))
	assert.Equal(t, "b", stdout.take())
}

// A rank of a lost node may print to stdout while its stderr is being ended.
func TestEndStderrBesideStdout(t *testing.T) {
	var stdout, stderr recorder
	c := NewConsole(Config{Stdout: Destination{W: &stdout}, Stderr: Destination{W: &stderr}, Ranks: ranks(64)})
	c.Write(0, Stderr, []byte("torn"))
	var busy sync.WaitGroup
	busy.Go(func() {
		for rank := range 64 {
			c.Write(rank, Stdout, []byte("o\n"))
		}
	})
	for range 64 {
		c.EndStderr()
	}
	busy.Wait()
	require.NoError(t, c.Close(t.Context()))
	assert.Equal(t, "torn\n", stderr.take())
	assert.Equal(t, strings.Repeat("o\n", 64), stdout.take())
}
