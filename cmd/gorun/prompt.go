package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// askOnTerminal asks for secrets, such as the passphrase of a key, on the terminal that
// this process belongs to, wherever its standard streams go; nil where there is none.
func askOnTerminal(screen *progressScreen) func(prompt string) (string, error) {
	tty, err := openTerminal()
	if err != nil {
		return nil
	}
	_ = tty.Close()
	return func(prompt string) (string, error) {
		resume := screen.pause()
		defer resume()
		tty, err := openTerminal()
		if err != nil {
			return "", err
		}
		defer tty.Close()
		return askSilently(tty, prompt)
	}
}

func openTerminal() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }

// askSilently reads a line that is not shown. A signal that ends this process leaves
// the terminal as it was.
func askSilently(tty *os.File, prompt string) (string, error) {
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	ended, answered := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(ended)
	defer close(answered)
	go func() {
		select {
		case <-answered:
		case sig := <-ended:
			_ = term.Restore(fd, before)
			_, _ = tty.WriteString("\n")
			endBy(sig)
		}
	}()
	if err := hideTyping(fd); err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, before) }()
	if _, err := tty.WriteString(prompt); err != nil {
		return "", err
	}
	secret, err := term.ReadPassword(fd)
	_, _ = tty.WriteString("\n") // the one that was typed was not shown
	return string(secret), err
}

// hideTyping has a terminal show nothing of what is typed. It comes before the prompt: who
// answers at once, or pastes, would have the secret on the screen otherwise.
func hideTyping(fd int) error {
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, unix.TCSETS, settings)
}
