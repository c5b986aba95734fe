package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Switch sets what an option without a value switches on.
func Switch(into *bool) func(Arg) error {
	return func(a Arg) error {
		*into = a.On
		return nil
	}
}

// Text takes a value that may not be empty.
func Text(into *string) func(Arg) error {
	return func(a Arg) error { return text(into, a) }
}

// text takes a value that may not be empty.
func text(into *string, a Arg) error {
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	*into = a.Value
	return nil
}

// anyText takes a value that may be empty.
func anyText(into *string) func(Arg) error {
	return func(a Arg) error {
		*into = a.Value
		return nil
	}
}

// Parsed takes a value as parse reads it.
func Parsed[T any](into *T, parse func(string) (T, error)) func(Arg) error {
	return func(a Arg) (err error) {
		*into, err = parse(a.Value)
		return err
	}
}

// Either takes one of two words, of which the second switches something on.
func Either(into *bool, off, on string) func(Arg) error {
	return func(a Arg) error {
		*into = a.Value == on
		return OneOf(a.Value, off, on)
	}
}

// named takes a word that stands for its place among all, as the values of a type are numbered.
func named[T ~uint8](into *T, all ...string) func(Arg) error {
	return func(a Arg) error {
		*into = T(max(slices.Index(all, a.Value), 0))
		return OneOf(a.Value, all...)
	}
}

// kept keeps a flag that was switched on.
func kept(into *Arg) func(Arg) error {
	return func(a Arg) error {
		if a.On {
			*into = a
		}
		return nil
	}
}

// switchedBy keeps what switched something on.
func switchedBy(from *string) func(Arg) error {
	return func(a Arg) error {
		if *from = ""; a.On {
			*from = a.From
		}
		return nil
	}
}

// given keeps a value that may not be empty.
func given(into *Arg) func(Arg) error {
	return func(a Arg) error {
		*into = a
		return text(new(string), a)
	}
}

// saidBy keeps what named a value, beside it.
func saidBy(from *string, set func(Arg) error) func(Arg) error {
	return func(a Arg) error {
		*from = a.From
		return set(a)
	}
}

// nothing is the setter of options that ask for what happens anyway.
func nothing(Arg) error { return nil }

// as is the setter of what stands for another option of the line: what it stands for is written as it is typed, and
// value is where its own value stands in that, "" or BOOL for a flag.
func (p *Line) as(written, value string) func(Arg) error {
	name, with, _ := strings.Cut(written, " ")
	return func(a Arg) error {
		switch {
		case value == "" || value == "BOOL":
			if !a.On {
				return nil
			}
			a.Value = with
		case with != "":
			a.Value = strings.Replace(with, value, a.Value, 1)
		}
		return p.option(name).Set(a)
	}
}

// same is a row of options that stand for another one, and also stand before a later program.
func (p *Line) same(f family, written, value string, names ...string) Option {
	return Option{
		Names: names, Group: GroupMPI, Value: value, Family: f, block: true, Help: "the same as " + written,
		Set: p.as(written, value),
	}
}

// AtLeast reads a number that may not be too small.
func AtLeast(least int) func(string) (int, error) {
	return func(value string) (int, error) { return ParseAtLeast(value, least) }
}

// within reads a time between two bounds.
func within(least, most time.Duration) func(string) (time.Duration, error) {
	return func(value string) (time.Duration, error) {
		d, err := ParseDuration(value)
		if err == nil && (d < least || d > most) {
			err = fmt.Errorf("not a time from %v to %v", least, most)
		}
		return d, err
	}
}
