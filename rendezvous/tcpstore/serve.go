package tcpstore

import (
	"errors"
)

// Requests that are invalid at this time.
var (
	errGreetedTwice = errors.New("VALIDATE: already validated")
	errWaitsTwice   = errors.New("WAIT or BARRIER while an earlier one is unanswered")
)

// answer serves one request. The error disconnects the client.
func (l *loop) answer(c *conn, op byte, args arguments) error {
	if op != opQueuePop {
		l.engine.PassOn(&c.waiter)
	}
	e := l.engine
	switch op {
	case opValidate:
		return errGreetedTwice
	case opPing:
		return l.ping(c, args)
	case opSet:
		e.Set(l.key(c, op, args.text()), args.text())
	case opAppend:
		e.Append(l.key(c, op, args.text()), args.text())
	case opMultiSet:
		for n := args.number(); n > 0; n-- {
			e.Set(l.key(c, op, args.text()), args.text())
		}
	case opGet:
		value, _ := e.Get(l.key(c, op, args.text())) // empty for a missing key
		l.putValue(c, value)
	case opMultiGet:
		for n := args.number(); n > 0; n-- {
			value, _ := e.Get(l.key(c, op, args.text()))
			l.putValue(c, value)
		}
	case opCompareSet:
		l.putValue(c, e.CompareSet(l.key(c, op, args.text()), args.text(), args.text()))
	case opAdd:
		sum, err := e.Add(l.key(c, op, args.text()), args.number())
		if err != nil {
			return err
		}
		l.putNumber(c, sum)
	case opDelete:
		l.putBool(c, e.Delete(l.key(c, op, args.text())))
	case opNumKeys:
		l.putNumber(c, int64(e.NumKeys()))
	case opListKeys:
		l.listKeys(c)
	case opCheck:
		l.check(c, args)
	default:
		return l.answerWaitOrQueue(c, op, args)
	}
	return nil
}

func (l *loop) answerWaitOrQueue(c *conn, op byte, args arguments) error {
	e := l.engine
	switch op {
	case opWait:
		return l.wait(c, args)
	case opBarrier:
		return l.barrier(c, args)
	case opCancelWait:
		e.Cancel(&c.waiter)
		l.putByte(c, replyCanceled)
	case opQueuePush:
		e.Push(l.key(c, op, args.text()), args.text())
	case opQueuePop:
		l.pop(c, args)
	case opQueueLen:
		l.putNumber(c, int64(e.Len(l.key(c, op, args.text()))))
	}
	return nil
}

// ping returns what the client sent, which is its process ID.
func (l *loop) ping(c *conn, args arguments) error {
	c.pid = uint32(args[0]) | uint32(args[1])<<8 | uint32(args[2])<<16 | uint32(args[3])<<24
	l.put(c, args)
	return nil
}

func (l *loop) putBool(c *conn, b bool) {
	n := int64(0)
	if b {
		n = 1
	}
	l.putNumber(c, n)
}

func (l *loop) listKeys(c *conn) {
	l.putNumber(c, int64(l.engine.NumKeys()))
	for key := range l.engine.Keys() {
		l.putValue(c, []byte(key))
	}
}

func (l *loop) check(c *conn, args arguments) {
	for n := args.number(); n > 0; n-- {
		if !l.engine.Check(l.key(c, opCheck, args.text())) {
			l.putByte(c, replyNotReady)
			return
		}
	}
	l.putByte(c, replyReady)
}

func (l *loop) wait(c *conn, args arguments) error {
	if c.waiter.Waiting() {
		return errWaitsTwice
	}
	l.keys = args.appendTexts(l.keys[:0])
	for _, key := range l.keys {
		l.key(c, opWait, key)
	}
	if l.engine.Wait(&c.waiter, l.keys...) {
		l.putByte(c, replyReady)
	}
	if clear(l.keys); cap(l.keys) > chunk {
		l.keys = nil
	}
	return nil
}

func (l *loop) barrier(c *conn, args arguments) error {
	if c.waiter.Waiting() {
		return errWaitsTwice
	}
	full, err := l.engine.Arrive(&c.waiter, l.key(c, opBarrier, args.text()), args.number())
	if full {
		l.putByte(c, replyReady)
	}
	return err
}

// pop replies with the length of the queue and its first value.
func (l *loop) pop(c *conn, args arguments) {
	queue := l.key(c, opQueuePop, args.text())
	n := l.engine.Len(queue)
	value, ok := l.engine.Pop(&c.waiter, queue)
	l.putNumber(c, int64(n))
	if ok {
		l.putValue(c, value)
	}
}
