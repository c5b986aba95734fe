package process

import (
	"encoding/binary"
	"slices"
)

// The launcher writes all that a sweep needs as records into a pipe, which is not read while the launcher lives:
//
//	word    8 bytes: kind in the highest 4 bits, argument in the other 60
//	data    if the argument is a length: that many bytes
//
// The first word is the version of the format, because the reader may be another program (GuardConfig.Executable). A
// rank takes 8 bytes, so 500 fit into a single page, the size of pipes for users who have many.
type recordKind uint64

const (
	recordVersion  recordKind = iota + 1 // argument: guardVersion
	recordSince                          // argument: ticks
	recordID                             // argument: length; the job's id
	recordRank                           // argument: pid
	recordPath                           // argument: length; device and inode, 8 bytes each, and the path
	recordCgroup                         // argument: length; the directory of the job's cgroup
	recordNumbered                       // argument: length; prefix of file names, see RemoveNumbered
	recordReaped                         // argument: pid of a reaped rank, which may be reused
)

const (
	guardVersion = 4
	argumentBits = 60
	pathHeader   = 16
)

func appendWord(b []byte, kind recordKind, argument uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(kind)<<argumentBits|argument&(1<<argumentBits-1))
}

func appendData(b []byte, kind recordKind, data string) []byte {
	return append(appendWord(b, kind, uint64(len(data))), data...)
}

func (o Owned) appendTo(b []byte) []byte {
	b = appendWord(b, recordPath, uint64(pathHeader+len(o.Path)))
	b = binary.LittleEndian.AppendUint64(b, o.Device)
	b = binary.LittleEndian.AppendUint64(b, o.Inode)
	return append(b, o.Path...)
}

// Guarded is the job as its guard knows it.
type Guarded struct {
	// ID is the job's element of the marker.
	ID    string
	Since Ticks
	Ranks []int // pids, which are session ids
	// Owned are files and directories to remove, and Numbered prefixes of such (see RemoveNumbered).
	Owned    []Owned
	Numbered []string
	Cgroup   string // directory; "": none

	onDeath []Owned // removed by the guard process only, not by Dismiss
}

func (s *Guarded) encode() []byte {
	b := appendWord(nil, recordVersion, guardVersion)
	b = appendWord(b, recordSince, uint64(s.Since))
	b = appendData(b, recordID, s.ID)
	if s.Cgroup != "" {
		b = appendData(b, recordCgroup, s.Cgroup)
	}
	for _, pid := range s.Ranks {
		b = appendWord(b, recordRank, uint64(pid))
	}
	for _, prefix := range s.Numbered {
		b = appendData(b, recordNumbered, prefix)
	}
	for _, o := range slices.Concat(s.Owned, s.onDeath) {
		b = o.appendTo(b)
	}
	return b
}

// decodeState decodes the records of a dead launcher. It ignores a truncated last record; ok is false for another
// version.
func decodeState(b []byte) (s Guarded, ok bool) {
	kind, version, b, ok := cutWord(b)
	if !ok || kind != recordVersion || version != guardVersion {
		return s, false
	}
	for {
		var argument uint64
		if kind, argument, b, ok = cutWord(b); !ok {
			return s, true
		}
		switch kind {
		case recordSince:
			s.Since = Ticks(argument)
		case recordRank:
			s.Ranks = append(s.Ranks, int(argument))
		case recordReaped:
			s.removeRanks([]int{int(argument)})
		case recordID, recordPath, recordCgroup, recordNumbered:
			if argument > uint64(len(b)) {
				return s, true
			}
			s.setData(kind, b[:argument])
			b = b[argument:]
		}
	}
}

func (s *Guarded) removeRanks(pids []int) {
	s.Ranks = slices.DeleteFunc(s.Ranks, func(pid int) bool { return slices.Contains(pids, pid) })
}

func (s *Guarded) setData(kind recordKind, data []byte) {
	switch {
	case kind == recordID:
		s.ID = string(data)
	case kind == recordCgroup:
		s.Cgroup = string(data)
	case kind == recordNumbered:
		s.Numbered = append(s.Numbered, string(data))
	case len(data) > pathHeader:
		s.Owned = append(s.Owned, Owned{
			Device: binary.LittleEndian.Uint64(data),
			Inode:  binary.LittleEndian.Uint64(data[8:]),
			Path:   string(data[pathHeader:]),
		})
	}
}

func cutWord(b []byte) (kind recordKind, argument uint64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, 0, nil, false
	}
	word := binary.LittleEndian.Uint64(b)
	return recordKind(word >> argumentBits), word & (1<<argumentBits - 1), b[8:], true
}
