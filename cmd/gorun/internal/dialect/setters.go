package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Arg is one value of an option.
type Arg struct {
	Value string
	On    bool   // of a flag
	From  string // its source, as the user typed it: "-np 3", "GORUN_NP=3"

	choices func() []string // those of the option
}

// optionValue is a value with the option or variable that gave it.
type optionValue[T any] struct {
	value T
	from  string // "" if none gave it
}

// parsed returns a setter that takes a value as parse reads it.
func (s *optionValue[T]) parsed(parse func(string) (T, error)) func(Arg) error {
	return func(a Arg) (err error) {
		s.from = a.From
		s.value, err = parse(a.Value)
		return err
	}
}

// Switch returns the setter of a flag.
func Switch(into *bool) func(Arg) error {
	return func(a Arg) error {
		*into = a.On
		return nil
	}
}

// switchFrom returns the setter of a flag that keeps its source alone, "" if it is off.
func switchFrom(from *string) func(Arg) error {
	return func(a Arg) error {
		if *from = ""; a.On {
			*from = a.From
		}
		return nil
	}
}

// Text returns a setter that takes any value but an empty one.
func Text(into *string) func(Arg) error {
	return func(a Arg) error {
		*into = a.Value
		return notEmpty(a)
	}
}

func notEmpty(a Arg) error {
	if a.Value == "" {
		return errors.New("the value is empty")
	}
	return nil
}

// anyText returns a setter that takes any value.
func anyText(into *string) func(Arg) error {
	return func(a Arg) error {
		*into = a.Value
		return nil
	}
}

// keep returns a setter that takes any value but an empty one, with its source.
func keep(into *Arg) func(Arg) error {
	return func(a Arg) error {
		*into = a
		return notEmpty(a)
	}
}

// keepAll returns a setter that collects values.
func keepAll(into *[]Arg) func(Arg) error {
	return func(a Arg) error {
		err := notEmpty(a)
		if err == nil {
			*into = append(*into, a)
		}
		return err
	}
}

// Parsed returns a setter that takes a value as parse reads it.
func Parsed[T any](into *T, parse func(string) (T, error)) func(Arg) error {
	return func(a Arg) (err error) {
		*into, err = parse(a.Value)
		return err
	}
}

// Choice returns a setter that takes one of the option's choices.
func Choice(into *string) func(Arg) error {
	return func(a Arg) error {
		*into = a.Value
		return OneOf(a.Value, a.choices()...)
	}
}

// Index returns a setter that sets the index of one of the option's choices.
func Index[T ~uint8 | ~int](into *T) func(Arg) error {
	return func(a Arg) error {
		all := a.choices()
		*into = T(max(slices.Index(all, a.Value), 0))
		return OneOf(a.Value, all...)
	}
}

// Second returns a setter that takes one of the option's two choices, of which the second switches something on.
func Second(into *bool) func(Arg) error {
	return func(a Arg) error {
		choice := 0
		err := Index(&choice)(a)
		*into = choice == 1
		return err
	}
}

// withFrom returns a setter that also sets the value's source.
func withFrom(from *string, set func(Arg) error) func(Arg) error {
	return func(a Arg) error {
		*from = a.From
		return set(a)
	}
}

// nothing is the setter of options that ask for what happens anyway.
func nothing(Arg) error { return nil }

// as returns the setter of an alias: written is the option that it means, as it is typed, and value the
// placeholder in it for the alias's own value; "" and BOOL are flags.
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
		return p.option(name).set(a)
	}
}

// AtLeast parses an integer that is least or more.
func AtLeast(least int) func(string) (int, error) {
	return func(value string) (int, error) { return ParseAtLeast(value, least) }
}

// within parses a time between two bounds.
func within(least, most time.Duration) func(string) (time.Duration, error) {
	return func(value string) (time.Duration, error) {
		d, err := ParseDuration(value)
		if err == nil && (d < least || d > most) {
			err = fmt.Errorf("not a time from %v to %v", least, most)
		}
		return d, err
	}
}
