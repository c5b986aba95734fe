package dialect

// Command is one of gorun's commands, as its help and completion show it.
type Command struct {
	Name, Category string
	HelpName       string // as users type it
	Usage          string // in lists of commands
	UsageText      string // how it is called
	Description    string
	Flags          []*Flag
	Hidden         bool // no list shows it
	Action         func() error
}

// Flag is an option of a command.
type Flag struct {
	*Option
	Hidden bool // the help leaves it to another command line's
}

// Flags returns options as those of a command.
func Flags(options ...*Option) []*Flag {
	flags := make([]*Flag, len(options))
	for i, o := range options {
		flags[i] = &Flag{Option: o}
	}
	return flags
}

// Hide sets Hidden on flags, and returns them.
func Hide(flags []*Flag) []*Flag {
	for _, f := range flags {
		f.Hidden = true
	}
	return flags
}
