package process

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"gorun/launcher/internal/process/kernel"
)

// image is a Common as C strings, built once for all ranks.
type image struct {
	path, dir *byte   // nil: none
	argv      []*byte // ends with nil
	envp      []*byte // not terminated: each rank's own variables follow
}

func newImage(c Common) (*image, error) {
	var s scratch
	img := &image{}
	if err := s.fill(img, c.Path, "", c.Argv, c.Env); err != nil {
		return nil, err
	}
	return img, nil
}

// scratch holds the C strings of the rank that is being started. A spawner reuses it for all its ranks, as execve
// copies them.
type scratch struct {
	text []byte
	own  image
}

// load sets the strings of c: r's own after img's.
func (s *scratch) load(c *kernel.Child, img *image, r *rank) error {
	own := &s.own
	own.envp = append(own.envp[:0], img.envp...)
	if err := s.fill(own, r.Path, r.Dir, r.Argv, r.Env); err != nil {
		return err
	}
	own.envp = append(own.envp, nil)
	c.Binding = r.Binding
	c.Envp, c.Argv = &own.envp[0], &img.argv[0]
	if r.Argv != nil {
		c.Argv = &own.argv[0]
	}
	c.Path, c.Dir = cmp.Or(own.path, img.path), own.dir
	return nil
}

// fill converts strings into img. It appends to img.envp.
func (s *scratch) fill(img *image, path, dir string, argv, env []string) (err error) {
	s.text = slices.Grow(s.text[:0], size(env)+size(argv)+len(path)+len(dir)+2) // pointers into it must stay valid
	if img.envp, err = s.add(img.envp, env); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	if img.argv, err = s.add(img.argv[:0], argv); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	img.argv = append(img.argv, nil)
	if img.path, err = s.path(path); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if img.dir, err = s.path(dir); err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	return nil
}

func (s *scratch) add(list []*byte, strs []string) ([]*byte, error) {
	for _, str := range strs {
		p, err := s.cstring(str)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// path is cstring, with nil for "".
func (s *scratch) path(str string) (*byte, error) {
	if str == "" {
		return nil, nil
	}
	return s.cstring(str)
}

func (s *scratch) cstring(str string) (*byte, error) {
	if strings.IndexByte(str, 0) >= 0 {
		return nil, fmt.Errorf("%q contains a zero byte: %w", str, syscall.EINVAL)
	}
	at := len(s.text)
	s.text = append(append(s.text, str...), 0)
	return &s.text[at], nil
}

// size returns the number of bytes of strs as C strings.
func size(strs []string) int {
	n := len(strs)
	for _, s := range strs {
		n += len(s)
	}
	return n
}
