package exchange

import (
	"errors"
	"time"

	"gorun/rendezvous/world"
)

// Name is a name that a rank has published, and its value. All worlds of a job see it.
type Name struct {
	// Space separates names of different kinds: "pmi", "pmix", "pmix:WORLD" for one that only that world sees. A name
	// is unique within its space.
	Space string
	Name  string
	Value []byte
	Owner world.Proc
	// Lifetime says when the name disappears unless it is unpublished.
	Lifetime Lifetime
	// WorldSize is the number of ranks in the owner's world, for LifetimeWorld.
	WorldSize int
}

// Lifetime is how long a published name is kept.
type Lifetime uint8

// What ends a name.
const (
	LifetimeJob       Lifetime = iota // the end of the job
	LifetimeWorld                     // the exit of the last rank of the owner's world
	LifetimeOwner                     // the exit of the owner
	LifetimeFirstRead                 // the first lookup
)

// Query asks for published names.
type Query struct {
	// Spaces are searched in this order.
	Spaces []string
	// Names are looked for, at most 1,024, and Need of them are enough.
	Names []string
	Need  int
	// By is the rank that asks. The lookup ends when it exits.
	By world.Proc
	// Wait is how long to wait for names that are not published yet: 0 for not at all, negative for as long as the job
	// lasts.
	Wait time.Duration
}

// Errors of names, for [errors.Is].
var (
	ErrPublished    = errors.New("the name is already published")
	ErrNotPublished = errors.New("the name is not published")
	ErrNotOwner     = errors.New("another rank published the name")
	ErrTooMany      = errors.New("the published names are too many or too long")
	ErrTooManyWaits = errors.New("too many lookups are pending in this rank or in the job")
)

// Publish publishes names, all of them or none. The error is [ErrPublished] if a space has one already.
func (n *Node) Publish(names []Name, done func(err error)) {
	n.requestNames(nameRequest{Op: opPublish, Published: names}, func(_ []Name, err error) { done(err) })
}

// Lookup finds the names of a query as soon as there are enough of them: all that there are then. If there are fewer
// when the wait is over, the error is [ErrNotPublished] beside those that were found; it is [ErrTooManyWaits] if the
// lookup cannot wait. A name with LifetimeFirstRead that was found counts as read even while the lookup waits for
// others.
func (n *Node) Lookup(q Query, done func(found []Name, err error)) {
	n.requestNames(nameRequest{Op: opLookup, Query: q}, done)
}

// Unpublish removes names, one after the other, each from the first of the spaces that has it; without names, all of
// the owner's in the spaces. Only its owner may remove a name; an owner without a world means any. The errors are
// [ErrNotPublished] and [ErrNotOwner].
func (n *Node) Unpublish(spaces, names []string, owner world.Proc, done func(err error)) {
	q := Query{Spaces: spaces, Names: names, By: owner}
	n.requestNames(nameRequest{Op: opUnpublish, Query: q}, func(_ []Name, err error) { done(err) })
}

// requestNames has the head answer a request.
func (n *Node) requestNames(r nameRequest, done func(found []Name, err error)) {
	n.Request(Head, namesService, packNames(r), func(reply []byte, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(readNameReply(reply))
	})
}
