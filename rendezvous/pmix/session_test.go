package pmix

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gorun/rendezvous/world"
)

// Sessions of real clients are in testdata/sessions/NAME.gz. A test sends the client's bytes to a server again, and
// its replies must equal the recorded ones. Of the initial data about a world, all items must be there, with the
// same types. record_test.go makes the files, which are lines of text:
//
//	# the recorded program
//	ranks N
//	RANK > HEX    a message from that rank, the first one its handshake
//	RANK < HEX    a message from the server
//
// in the order of arrival.

// sessionMessage is a message of a session.
type sessionMessage struct {
	rank     int
	toServer bool
	bytes    []byte
}

// session is the messages of one program's ranks and the server.
type session struct {
	about    string
	ranks    int
	messages []sessionMessage
}

// sessionWorld is the world of all recorded sessions.
const sessionWorld = "golden"

func readSession(path string) (*session, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	s := &session{}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if err := s.addLine(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, lines.Err()
}

func (s *session) addLine(line string) error {
	fields := strings.Fields(line)
	switch {
	case strings.HasPrefix(line, "#"):
		s.about = strings.TrimSpace(line[1:])
	case len(fields) == 2 && fields[0] == "ranks":
		n, err := strconv.Atoi(fields[1])
		s.ranks = n
		return err
	case len(fields) == 3:
		rank, err := strconv.Atoi(fields[0])
		if err != nil {
			return err
		}
		b, err := hex.DecodeString(fields[2])
		s.messages = append(s.messages, sessionMessage{rank, fields[1] == ">", b})
		return err
	default:
		return fmt.Errorf("the line %.40q does not belong to a session", line)
	}
	return nil
}

func (s *session) write(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\nranks %d\n", s.about, s.ranks)
	for _, m := range s.messages {
		way := "<"
		if m.toServer {
			way = ">"
		}
		fmt.Fprintf(&b, "%d %s %x\n", m.rank, way, m.bytes)
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(b.Bytes()); err != nil {
		return err
	}
	return z.Close()
}

func TestRecordedSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/sessions/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no sessions: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gz"), func(t *testing.T) {
			s, err := readSession(path)
			if err != nil {
				t.Fatal(err)
			}
			replay(t, s)
		})
	}
}

// replay sends the messages of a session's ranks in order, each after the server's messages that were recorded before
// it.
func replay(t *testing.T, s *session) {
	r := newRig(t, 1)
	r.addSessionWorld(s.ranks)
	players := make([]*player, s.ranks)
	for rank := range players {
		players[rank] = newPlayer(r, s, rank)
	}
	for _, m := range s.messages {
		p := players[m.rank]
		if m.toServer {
			p.send(m.bytes)
		} else {
			p.receive()
		}
	}
	for _, p := range players {
		if len(p.wanted) > 0 {
			t.Errorf("rank %d: %d answers have not come", p.rank, len(p.wanted))
		}
	}
	received := r.starter.all()
	for _, text := range received {
		if strings.HasPrefix(text, "broken") {
			t.Error(text)
		}
	}
	if len(received) < 2*s.ranks {
		t.Errorf("of %d ranks that begin and finalize the launcher receives %v", s.ranks, received)
	}
}

// addSessionWorld adds the world of the sessions, spread over the nodes.
func (r *rig) addSessionWorld(ranks int) *world.World {
	w := &world.World{Name: sessionWorld, Universe: ranks, Apps: []world.App{{NumRanks: ranks, Argv: []string{"prog"}}}}
	local := make([]int, len(r.servers))
	for node := range r.servers {
		w.Hosts = append(w.Hosts, fmt.Sprint("host", node))
	}
	for i := range ranks {
		node := i * len(r.servers) / ranks
		w.Ranks = append(w.Ranks, world.Rank{Job: i, Host: node, Node: node, LocalRank: local[node], NodeRank: local[node]})
		local[node]++
	}
	r.addWorld(w)
	return w
}

// player is one rank of a session.
type player struct {
	*client
	rank    int
	greeted bool
	// asked are the requests by tag, wanted the replies that are still to come.
	asked  map[uint32]asked
	wanted [][]byte
}

func newPlayer(r *rig, s *session, rank int) *player {
	p := &player{client: r.client(0), rank: rank, asked: map[uint32]asked{}}
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	for _, m := range s.messages {
		if m.rank == rank && !m.toServer {
			p.wanted = append(p.wanted, m.bytes)
		}
	}
	return p
}

// tagOf returns the tag of a message after the handshake.
func tagOf(message []byte) uint32 { return binary.BigEndian.Uint32(message[4:]) }

func (p *player) send(message []byte) {
	if len(message) > headerSize+4 && binary.BigEndian.Uint32(message) != 0xffffffff {
		d := decoder{b: message[headerSize:]}
		r := asked{command: command(d.oneUint8())}
		if r.command == commandGet {
			d.oneString()
			d.oneUint32()
			d.infoList()
			r.reserved = strings.HasPrefix(d.oneString(), "pmix.")
		}
		p.asked[tagOf(message)] = r
	}
	_, err := p.conn.Write(message)
	require.NoError(p.t, err)
}

// receive compares the server's next message with the recorded one.
func (p *player) receive() {
	p.t.Helper()
	if !p.greeted {
		p.greeted = true
		var has [8]byte
		_, err := io.ReadFull(p.conn, has[:])
		require.NoError(p.t, err)
		require.Zero(p.t, binary.BigEndian.Uint32(has[:]), "rank %d is refused", p.rank)
		p.wanted = p.wanted[1:]
		return
	}
	f, err := readFrame(p.conn, binary.BigEndian, maxFrame)
	require.NoError(p.t, err)
	tag, body := f.tag, f.body
	i := slices.IndexFunc(p.wanted, func(m []byte) bool { return tagOf(m) == tag })
	if i < 0 {
		p.t.Fatalf("rank %d gets an answer to %d, which nothing asks for", p.rank, tag)
	}
	want := p.wanted[i][headerSize:]
	p.wanted = slices.Delete(p.wanted, i, i+1)
	if missing := p.asked[tag].compare(body, want); missing != "" {
		p.t.Errorf("rank %d, command %d, tag %d: the answer is\n%x\nwant\n%x\nmissing: %s", p.rank, p.asked[tag].command,
			tag, body, want, missing)
	}
}

// asked is a request of a session.
type asked struct {
	command
	// reserved marks a GET of a reserved PMIx key.
	reserved bool
}

// compare returns the items that a reply lacks, or "".
func (a asked) compare(has, want []byte) string {
	switch {
	case a.command == commandJobInfo:
		return missingItems(jobItems(decoder{b: has}), jobItems(decoder{b: want}))
	case a.command == commandConnect:
		return missingItems(connectItems(decoder{b: has}), connectItems(decoder{b: want}))
	case a.reserved: // the server may know more than in the recording
		return ""
	case a.command == commandJobControl: // the files to remove depend on the directory
		return ""
	case !bytes.Equal(has, want):
		return "it is another"
	}
	return ""
}

func missingItems(has, want map[string]bool) string {
	var missing []string
	for item := range want {
		// Whether a host has more ranks than CPUs depends on the machine.
		if !has[item] && !strings.Contains(item, "pmix.ndosub") {
			missing = append(missing, item)
		}
	}
	return strings.Join(missing, ", ")
}

// connectItems returns the items of a reply to CONNECT.
func connectItems(d decoder) map[string]bool {
	items := map[string]bool{fmt.Sprint("status ", d.oneStatus()): true}
	for d.more() {
		d.one()
		maps.Copy(items, jobItems(decoder{b: d.bytes()}))
	}
	return items
}

// jobItems returns the items of a world, each "WORLD key type" or "WORLD rank N key type".
func jobItems(d decoder) map[string]bool {
	items := map[string]bool{}
	addItems(items, d.oneString(), &d)
	return items
}

func addItems(items map[string]bool, of string, d *decoder) {
	for d.more() {
		d.one()
		k := d.kval()
		items[fmt.Sprint(of, " ", k.key, " ", k.value.typ)] = true
		if k.key == "pmix.pblob" {
			inner, _ := k.value.bytes()
			rank := decoder{b: inner}
			addItems(items, fmt.Sprint(of, " rank ", rank.oneUint32()), &rank)
			if rank.err != nil {
				d.fail(rank.err)
			}
		}
	}
	if d.err != nil {
		items[d.err.Error()] = true
	}
}
