package nccl

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of a library, such as 2.30.7. The zero Version means no version.
type Version struct{ Major, Minor, Patch int }

// ParseVersion parses "2.30.7", "2.18", "v2.21.5-1" and "2.30.7+cuda13.3". It drops any suffix.
func ParseVersion(text string) (Version, error) {
	numbers := strings.TrimPrefix(strings.TrimSpace(text), "v")
	if end := strings.IndexFunc(numbers, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		if !strings.ContainsRune("+-~ ", rune(numbers[end])) {
			return Version{}, fmt.Errorf("%q is no version: write 2.30.7", text)
		}
		numbers = numbers[:end]
	}
	parts := strings.Split(numbers, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return Version{}, fmt.Errorf("%q is no version: write 2.30.7", text)
	}
	var fields [3]int
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return Version{}, fmt.Errorf("%q is no version: write 2.30.7", text)
		}
		fields[i] = int(n)
	}
	v := Version{fields[0], fields[1], fields[2]}
	if v.IsZero() {
		return Version{}, errors.New("0.0.0 is no version")
	}
	return v, nil
}

// IsZero reports whether v is the zero Version.
func (v Version) IsZero() bool { return v == Version{} }

// Compare returns -1, 0 or 1 if v is older than, equal to, or newer than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// String formats the version as its library does. It omits a missing patch level (2.18), and returns "" for
// the zero Version.
func (v Version) String() string {
	switch {
	case v.IsZero():
		return ""
	case v.Patch == 0:
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// MarshalText makes JSON contain the string form of a version.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
