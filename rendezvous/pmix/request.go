package pmix

// request is a message of a rank that waits for its answer.
type request struct {
	*conn
	tag uint32
	// body is what comes after the command. It stays valid: values decoded from it can be
	// kept.
	body decoder
	// size is that of the whole body, in bytes.
	size int
	// infos are those of a CONSTRUCT, which its meeting needs of all who have come.
	infos []info
}

// reply answers with a body that may come in parts, which are not changed any more. It may be called on any goroutine,
// does not wait, and does nothing when the connection has ended. It is called once; who serves a request that has no
// answer calls noReply.
func (q *request) reply(body ...[]byte) { q.answer(q, body) }

// era is that of the rank that asks: how often it has begun before.
func (q *request) era() uint32 { return q.member.data.era }

// status answers with a group {status} and nothing else.
func (q *request) status(code status) {
	var e encoder
	e.oneStatus(code)
	q.reply(e.b)
}

// noReply says that there is no answer.
func (q *request) noReply() { q.settle(q) }
