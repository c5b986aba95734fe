package wire

import (
	"cmp"
	"fmt"
	"strings"
)

// Peer is a kind of agent, by how it was started.
type Peer uint8

const (
	PeerLocal           Peer = 1 << iota // it runs in the head's own process
	PeerSSH                              // the head started it on another host
	PeerEngine                           // a resource manager started it
	PeerJoined                           // it joined, and authenticated by the token or MUNGE
	PeerUnauthenticated                  // it joined without

	anyPeer   = PeerLocal | PeerSSH | PeerEngine | PeerJoined | PeerUnauthenticated
	hasJoined = PeerJoined | PeerUnauthenticated
)

// State is how far a connection has come. Both ends derive it from the frames sent.
type State uint8

const (
	StateConnected  State = 1 << iota // no ranks were started
	StateStarted                      // ranks without MPI were started
	StateStartedMPI                   // ranks with MPI were started
	StateCleanedUp                    // no process of them is left

	anyState = StateConnected | StateStarted | StateStartedMPI | StateCleanedUp
	started  = StateStarted | StateStartedMPI
)

// rule says which frames of a type are allowed. The zero rule allows none.
type rule struct {
	from    Peer
	when    State
	answers []Type // requests, each of which allows one such frame; none: it needs no request
	most    int    // frames from one start of ranks to the next; 0: any number
	body    int    // size of the largest body in bytes
}

// Sizes of bodies in bytes: those of the largest nodes, and some more.
const (
	bodyFew   = 256
	bodyText  = 64 << 10
	bodyList  = 4 << 20
	bodyFacts = 8 << 20
	bodyRanks = 32 << 20
)

// table has the rules of one direction, by type.
type table struct {
	sender string // for messages
	rules  [numTypes]rule
}

func (t *table) row(of Type) *rule {
	if int(of) < len(t.rules) {
		return &t.rules[of]
	}
	return &rule{}
}

// fromAgent is what agents may send to a head. Handlers check the rest: that ranks are the node's own, that each ends
// once.
var fromAgent = table{"agent", [numTypes]rule{
	TypeFacts:       {from: anyPeer, when: StateConnected, answers: []Type{TypeHello}, body: bodyFacts},
	TypeOpened:      {from: anyPeer, when: StateConnected | StateCleanedUp, answers: []Type{TypeOpen}, body: bodyText},
	TypeReached:     {from: anyPeer, when: StateConnected | StateCleanedUp, answers: []Type{TypeProbe}, body: bodyList},
	TypeChecked:     {from: anyPeer, when: StateConnected | StateCleanedUp, answers: []Type{TypeCheck}, body: bodyFacts},
	TypePong:        {from: anyPeer, when: anyState, answers: []Type{TypePing}, body: bodyFew},
	TypeNotice:      {from: anyPeer, when: anyState, body: 1 << 20},
	TypeRunning:     {from: anyPeer, when: started, answers: []Type{TypeStart}, body: bodyList},
	TypeStartFailed: {from: anyPeer, when: started, answers: []Type{TypeStart}, body: 1 << 20},
	TypeOutput:      {from: anyPeer, when: started | StateCleanedUp, body: maxOutput + streamHeader},
	TypeEnded:       {from: anyPeer, when: started, body: MaxBody},
	TypeCredit:      {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeCleanedUp:   {from: anyPeer, when: started, answers: []Type{TypeCleanup}, body: bodyList},
	TypeSuspend:     {from: anyPeer, when: started | StateCleanedUp, answers: []Type{TypeSuspend}, body: bodyFew},
	TypeHung: {
		from: anyPeer, when: started | StateCleanedUp, answers: []Type{TypeInspect}, body: bodyRanks,
	},
	TypeStalled:    {from: anyPeer, when: started | StateCleanedUp, answers: []Type{TypeStart}, body: bodyRanks},
	TypeUsed:       {from: anyPeer, when: started | StateCleanedUp, answers: []Type{TypeUsage}, body: bodyRanks},
	TypeOutputLost: {from: PeerLocal | hasJoined, when: started | StateCleanedUp, most: 2, body: bodyText},
	TypeSignal:     {from: hasJoined, when: anyState, body: bodyFew},
	TypeSignalled:  {from: PeerEngine, when: anyState, body: bodyFew},
	TypeExchange:   {from: anyPeer, when: StateStartedMPI | StateCleanedUp, body: MaxBody},
	TypeMPI:        {from: anyPeer, when: StateStartedMPI | StateCleanedUp, body: bodyList},
	TypeSpawn:      {from: anyPeer, when: StateStartedMPI | StateCleanedUp, body: bodyList},
	TypeGrown:      {from: anyPeer, when: StateStartedMPI | StateCleanedUp, answers: []Type{TypeGrow}, body: bodyList},
}}

// fromHead is what a head may send to an agent; from is the kind of that agent.
var fromHead = table{"launcher", [numTypes]rule{
	TypeHello:    {from: anyPeer, when: StateConnected, most: 1, body: bodyFacts},
	TypeProbe:    {from: anyPeer, when: StateConnected | StateCleanedUp, body: bodyList},
	TypeCheck:    {from: anyPeer &^ hasJoined, when: StateConnected | StateCleanedUp, body: bodyFacts},
	TypeOpen:     {from: anyPeer &^ hasJoined, when: StateConnected | StateCleanedUp, body: bodyList},
	TypeStart:    {from: anyPeer, when: StateConnected | StateCleanedUp, body: MaxBody},
	TypeWarm:     {from: anyPeer &^ hasJoined, when: anyState, most: 1, body: MaxBody},
	TypePing:     {from: anyPeer, when: anyState, body: bodyFew},
	TypeJobEnded: {from: anyPeer, when: anyState, body: 1 << 20},
	TypeSignal:   {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeKill:     {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeCleanup:  {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeCredit:   {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeStdin:    {from: anyPeer, when: started | StateCleanedUp, body: maxOutput + streamHeader},
	TypeResize:   {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeSuspend:  {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeInspect:  {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeUsage:    {from: anyPeer, when: started | StateCleanedUp, body: bodyFew},
	TypeExchange: {from: anyPeer, when: StateStartedMPI | StateCleanedUp, body: MaxBody},
	TypeSpawned:  {from: anyPeer, when: StateStartedMPI | StateCleanedUp, answers: []Type{TypeSpawn}, body: bodyList},
	TypeGrow:     {from: anyPeer, when: StateStartedMPI | StateCleanedUp, body: MaxBody},
}}

// IsLate reports whether a frame of an agent may come after the end of its attempt, and be ignored then.
func (t Type) IsLate() bool {
	r := fromAgent.row(t)
	return r.when&StateCleanedUp != 0 && r.when&StateConnected == 0 && t != TypeOpened
}

// ViolationError reports a frame that its peer may not send.
type ViolationError struct{ Text string }

func (e *ViolationError) Error() string { return e.Text }

// Violation returns a ViolationError. Its text is a clause about the peer ("it sent …").
func Violation(format string, args ...any) error {
	return &ViolationError{Text: fmt.Sprintf(format, args...)}
}

// check compares a frame with its rule, except for requests and counts.
func (r *rule) check(sender string, t Type, peer Peer, state State, size int) error {
	switch {
	case int(t) >= int(numTypes):
		return Violation("it sent %s, an unknown frame", article(t))
	case r.from == 0:
		return Violation("it sent %s, which never goes in this direction", article(t))
	case r.from&peer == 0 && sender == fromHead.sender:
		return Violation("it sent %s, which a launcher may not send to %s", article(t), peer)
	case r.from&peer == 0:
		return Violation("it sent %s, which %s may not send", article(t), peer)
	case r.when&state != 0:
	case state == StateStarted:
		return Violation("it sent %s, which agents send only in MPI jobs", article(t))
	default:
		return Violation("it sent %s, which no %s may send %s", article(t), sender, state)
	}
	if size > r.body {
		return Violation("it sent %s of %d bytes: at most %d are allowed", article(t), size, r.body)
	}
	return nil
}

// article returns "a spawn frame".
func article(t Type) string {
	name := t.String()
	switch {
	case int(t) >= int(numTypes):
		return "a frame of " + name
	case strings.ContainsRune("aeiou", rune(name[0])) && t != TypeUsage && t != TypeUsed:
		return "an " + name + " frame"
	}
	return "a " + name + " frame"
}

var peerNames = map[Peer]string{
	PeerLocal:           "the agent of this process",
	PeerSSH:             "an agent that SSH started",
	PeerEngine:          "an agent that a resource manager started",
	PeerJoined:          "a node that joined",
	PeerUnauthenticated: "a node that joined without a token",
}

// String returns the kind, for messages.
func (p Peer) String() string { return cmp.Or(peerNames[p], fmt.Sprintf("kind %d", uint8(p))) }

var stateNames = map[State]string{
	StateConnected:  "before ranks are started",
	StateStarted:    "while ranks run",
	StateStartedMPI: "while ranks run",
	StateCleanedUp:  "after its ranks have ended",
}

// String returns when that is, for messages.
func (s State) String() string { return cmp.Or(stateNames[s], fmt.Sprintf("state %d", uint8(s))) }
