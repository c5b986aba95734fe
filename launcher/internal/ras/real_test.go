package ras

import (
	"bufio"
	"context"
	"debug/dwarf"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gorun/internal/testneeds"
)

// library is the libnccl.so.2 of the project's PyTorch.
func library(t *testing.T) (python, lib string) {
	python = testneeds.Torch(t)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(python), "..", "lib", "python3*", "site-packages", "nvidia",
		"nccl", "lib", "libnccl.so.2"))
	require.NoError(t, err)
	if len(found) == 0 {
		testneeds.Skip(t, testneeds.LayerTorch, "PyTorch came without NCCL")
	}
	return python, found[0]
}

// insides are the places of what the library does not export: functions by their symbols, fields of structs by their
// names, as its own debugging information has them.
func insides(t *testing.T, lib string) map[string]uint64 {
	file, err := elf.Open(lib)
	require.NoError(t, err)
	defer file.Close()
	places := map[string]uint64{}
	symbols, err := file.Symbols()
	if err != nil {
		testneeds.Skip(t, testneeds.LayerTorch, "this NCCL is stripped")
	}
	for _, s := range symbols {
		switch s.Name {
		case "_Z15ncclRasCommInitP8ncclCommP11rasRankInit":
			places["init"] = s.Value
		case "_Z15ncclRasAddRanksP11rasRankIniti":
			places["add"] = s.Value
		}
	}
	data, err := file.DWARF()
	if err != nil || places["init"] == 0 || places["add"] == 0 {
		testneeds.Skip(t, testneeds.LayerTorch, "this NCCL has no debugging information of its RAS")
	}
	fields(t, data, "ras/collectives.cc", map[string]bool{"ncclComm": true, "ncclPeerInfo": true}, places)
	fields(t, data, "ras/ras.cc", map[string]bool{"rasRankInit": true}, places)
	return places
}

// fields adds the offsets of the fields of structs, and their sizes, as one of the library's source files sees them.
func fields(t *testing.T, data *dwarf.Data, source string, structs map[string]bool, places map[string]uint64) {
	r := data.Reader()
	for {
		unit, err := r.Next()
		require.NoError(t, err)
		require.NotNil(t, unit, "no %s", source)
		if name, _ := unit.Val(dwarf.AttrName).(string); name == source {
			break
		}
		r.SkipChildren()
	}
	name := ""
	for depth := 1; depth > 0; {
		e, err := r.Next()
		require.NoError(t, err)
		own, _ := e.Val(dwarf.AttrName).(string)
		switch {
		case e.Tag == 0:
			if depth--; depth == 1 {
				name = ""
			}
			continue
		case e.Tag == dwarf.TagStructType && depth == 1 && structs[own] && e.Children:
			name = own
			size, _ := e.Val(dwarf.AttrByteSize).(int64)
			places[name] = uint64(size)
		case e.Tag == dwarf.TagMember && name != "" && depth == 2:
			offset, _ := e.Val(dwarf.AttrDataMemberLoc).(int64)
			places[name+"."+own] = uint64(offset)
		}
		if e.Children {
			if depth == 1 && name != own || depth > 1 { // nothing below is asked for
				r.SkipChildren()
				continue
			}
			depth++
		}
	}
}

// ranks are processes in which NCCL's own RAS runs, as a job's do that has GPUs.
type ranks struct {
	addr string
	list []*exec.Cmd
}

// startRanks starts them; their counts are those of NCCL's five collectives.
func startRanks(t *testing.T, counts ...[5]int) *ranks {
	python, lib := library(t)
	places, err := json.Marshal(insides(t, lib))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // NCCL says nowhere which port it took: one that was free
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())
	r, dir := &ranks{addr: addr}, t.TempDir()
	var said []*bufio.Reader
	for rank, c := range counts {
		cmd := exec.Command(python, "testdata/ras.py", lib, string(places), strconv.Itoa(rank), strconv.Itoa(len(counts)),
			dir, strings.Trim(fmt.Sprint(c), "[]"))
		cmd.Env = []string{"NCCL_RAS_ADDR=" + addr, "NCCL_SOCKET_IFNAME=lo", "NCCL_DEBUG=WARN"}
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = stdin.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		r.list, said = append(r.list, cmd), append(said, bufio.NewReader(stdout))
	}
	for rank, reader := range said {
		line, err := reader.ReadString('\n')
		require.NoError(t, err, "rank %d: %s", rank, line)
		require.Equal(t, "ready\n", line)
	}
	return r
}

// known queries until all ranks know each other, which takes them a moment.
func (r *ranks) known(t *testing.T) Status {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		s, err := Query(ctx, r.addr)
		require.NoError(t, err)
		strange := func(r Rank) bool { return r.PID <= 0 } // not known yet
		if len(s.Communicators) == 1 && len(s.Communicators[0].Ranks) == len(r.list) &&
			!slices.ContainsFunc(s.Communicators[0].Ranks, strange) {
			return s
		}
	}
}

func TestNCCLItself(t *testing.T) {
	r := startRanks(t, [5]int{0, 0, 7, 0, 42}, [5]int{0, 0, 7, 0, 42}, [5]int{0, 0, 7, 0, 42}, [5]int{0, 0, 7, 0, 41})
	s := r.known(t)
	assert.Regexp(t, `^2\.\d+\.\d+$`, s.Version)
	c := s.Communicators[0]
	assert.Equal(t, 4, c.Size)
	for i, rank := range c.Ranks {
		assert.Equal(t, i, rank.Rank)
		assert.Equal(t, r.list[i].Process.Pid, rank.PID)
		assert.Equal(t, "127.0.0.1", rank.Host)
		assert.Equal(t, uint64(7), rank.Counts["AllGather"])
	}
	s.AssignWorldRanks(func(r *Rank) int { return r.Rank })
	assert.Equal(t, []string{"rank 3 is behind: 41 AllReduce, the others 42"}, s.Findings(View{World: 4}))

	// One that is stopped still gets connections, and does not answer. The others do.
	require.NoError(t, r.list[1].Process.Signal(syscall.SIGSTOP))
	for {
		s, err := Query(t.Context(), r.addr)
		if errors.Is(err, ErrNoAnswer) { // on a busy machine
			continue
		}
		require.NoError(t, err)
		if len(s.Communicators) == 1 && len(s.Communicators[0].Ranks) == 3 {
			assert.Contains(t, s.Findings(View{World: 4}), "1 of 4 ranks does not answer: [1]")
			return
		}
	}
}
