package process

import (
	"fmt"
	"strings"
	"syscall"

	"gorun/launcher/internal/process/kernel"
)

// image is a Common in the kernel's form: C strings, built once for all ranks.
type image struct {
	path, dir *byte
	argv      []*byte // ends with nil
	envp      []*byte // does not: each rank's own follow
}

func newImage(c Common) (*image, error) {
	var s scratch
	s.grow(size(c.Env) + size(c.Argv) + len(c.Path) + len(c.Dir) + 2)
	img := &image{envp: make([]*byte, 0, len(c.Env)), argv: make([]*byte, 0, len(c.Argv)+1)}
	var err error
	if img.envp, err = s.add(img.envp, c.Env); err != nil {
		return nil, fmt.Errorf("common environment: %w", err)
	}
	if img.argv, err = s.add(img.argv, c.Argv); err != nil {
		return nil, fmt.Errorf("common arguments: %w", err)
	}
	img.argv = append(img.argv, nil)
	if img.path, err = s.path(c.Path); err != nil {
		return nil, fmt.Errorf("program %q: %w", c.Path, err)
	}
	if img.dir, err = s.path(c.Dir); err != nil {
		return nil, fmt.Errorf("directory %q: %w", c.Dir, err)
	}
	return img, nil
}

// scratch holds the C strings of the rank that is being started. A spawner uses
// the same one for all its ranks: the kernel has copied them when exec returns.
type scratch struct {
	text []byte
	argv []*byte
	envp []*byte
}

// load makes r's own strings and puts them behind img's into c.
func (s *scratch) load(c *kernel.Child, img *image, r *rank) (err error) {
	s.grow(size(r.Env) + size(r.Argv) + len(r.Path) + len(r.Dir) + 2)

	if s.envp, err = s.add(append(s.envp[:0], img.envp...), r.Env); err != nil {
		return err
	}
	s.envp = append(s.envp, nil)
	c.Envp = &s.envp[0]

	c.Binding = r.Binding
	c.Argv = &img.argv[0]
	if r.Argv != nil {
		if s.argv, err = s.add(s.argv[:0], r.Argv); err != nil {
			return err
		}
		s.argv = append(s.argv, nil)
		c.Argv = &s.argv[0]
	}
	if c.Path, err = s.path(r.Path); err != nil {
		return err
	}
	if c.Path == nil {
		c.Path = img.path
	}
	if c.Dir, err = s.path(r.Dir); err != nil {
		return err
	}
	if c.Dir == nil {
		c.Dir = img.dir
	}
	return nil
}

// grow empties text and gives it room for n bytes: pointers into it must stay valid.
func (s *scratch) grow(n int) {
	if cap(s.text) < n {
		s.text = make([]byte, 0, n)
	}
	s.text = s.text[:0]
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

// path is cstring, but nil for "".
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

// size returns the bytes that strs take as C strings.
func size(strs []string) int {
	n := len(strs)
	for _, s := range strs {
		n += len(s)
	}
	return n
}
