package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// secretPrompt returns a function that prompts for a secret, such as the passphrase of a key, on the controlling
// terminal, wherever the standard streams go. It returns nil if there is no such terminal.
func secretPrompt(screen *progressScreen) func(prompt string) (string, error) {
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
		return readSecret(tty, prompt)
	}
}

func openTerminal() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }

// readSecret reads a line without echo. A signal that ends this process restores the terminal first.
func readSecret(tty *os.File, prompt string) (string, error) {
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
			endBySignal(sig)
		}
	}()
	if err := disableEcho(fd); err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, before) }()
	if _, err := tty.WriteString(prompt); err != nil {
		return "", err
	}
	secret, err := term.ReadPassword(fd)
	_, _ = tty.WriteString("\n") // the typed one was not echoed
	return string(secret), err
}

// disableEcho must come before the prompt: term.ReadPassword alone would echo a secret that is typed or pasted at once.
func disableEcho(fd int) error {
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	settings.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, unix.TCSETS, settings)
}
