package output

import (
	"context"
	"os"
	"strings"
	"testing"
)

// throttle returns credit to a sender, as a connection's window does.
type throttle struct{ leave chan int }

func (c throttle) consumed(_, _, n int) { c.leave <- n }

// wait takes n bytes of credit.
func (c throttle) wait(n int) {
	for n > 0 {
		n -= <-c.leave
	}
}

// discarding returns a Console of four ranks that writes to the null device.
func discarding(cfg Config) (*Console, throttle) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err) // every Linux system has it
	}
	credits := throttle{make(chan int, 1000)}
	cfg.Stdout.W, cfg.Stderr.W = null, null
	cfg.Ranks, cfg.Consumed = ranks(4), credits.consumed
	return NewConsole(cfg), credits
}

// BenchmarkConsole makes four ranks print lines of 80 bytes, each with a window of 1 MiB, in pieces of a pipe's size.
func BenchmarkConsole(b *testing.B) {
	for _, bb := range []struct {
		name string
		cfg  Config
	}{
		{"raw", Config{}},
		{"labelled", Config{Label: LabelAlways}},
		{"terminal", Config{Stdout: Destination{Terminal: true}, Label: LabelAlways}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const window = 4 << 20
			c, credits := discarding(bb.cfg)
			p := []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 820)[:64<<10])
			b.SetBytes(int64(len(p)))
			out := 0
			for i := 0; b.Loop(); i++ {
				if out += len(p); out > window {
					out -= <-credits.leave
				}
				c.Write(i%4, Stdout, p)
			}
			go func() {
				for range credits.leave {
				}
			}()
			if err := c.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			close(credits.leave)
		})
	}
}
