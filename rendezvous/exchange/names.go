package exchange

import (
	"errors"
	"time"

	"gorun/rendezvous/world"
)

// Published is a name that a rank has made known, and what it stands for. All worlds of a
// job see it.
type Published struct {
	// Space keeps names of different kinds apart: "pmi", "pmix", "pmix:WORLD" for one
	// that only that world may see. Names are told apart within one.
	Space string
	Name  string
	Value []byte
	Owner world.Proc
	// Keep says when it is forgotten if nobody unpublishes it.
	Keep Keep
	// WorldSize is how many ranks the owner's world has: for KeepWorld.
	WorldSize int
}

// Keep is how long a published name is kept.
type Keep uint8

// What may end a name.
const (
	KeepJob   Keep = iota // the job's end
	KeepWorld             // the end of the last rank of the owner's world
	KeepOwner             // the owner's end
	KeepRead              // the first lookup
)

// Wanted is a name that is looked for.
type Wanted struct {
	// Spaces are looked into in this order.
	Spaces []string
	// Name is for Lookup, Names and Need for LookupSome: so many of them are enough, 1,024 all
	// that there may be.
	Name  string
	Names []string
	Need  int
	// By is who wants it: when that rank has ended nobody waits any more.
	By world.Proc
	// Wait is how long to wait until somebody publishes it: 0 not at all, below 0 as long
	// as the job lasts.
	Wait time.Duration
}

// Errors of names, to be asked for by errors.Is.
var (
	ErrPublished    = errors.New("the name is published already")
	ErrNotPublished = errors.New("the name is not published")
	ErrNotOwner     = errors.New("the name was published by another rank")
	ErrTooMany      = errors.New("too many or too long names are published")
	ErrTooManyWaits = errors.New("too many lookups of this rank, or of the job, wait for names")
)

// Publish makes names known, all of them or none. The error is ErrPublished where a space has one already.
func Publish(p Plane, names []Published, done func(err error)) {
	nameQuestion{op: opPublish, published: names}.ask(p, func(_ []Published, err error) { done(err) })
}

// Lookup finds what a name stands for. The error is ErrNotPublished where it is in none of
// the spaces when the wait is over, ErrTooManyWaits where it cannot wait.
func Lookup(p Plane, w Wanted, done func(n Published, err error)) {
	w.Names, w.Need = []string{w.Name}, 1
	LookupSome(p, w, func(found []Published, err error) {
		if err == nil && len(found) == 0 {
			err = ErrNotPublished
		}
		if err != nil {
			done(Published{}, err)
			return
		}
		done(found[0], nil)
	})
}

// LookupSome finds what several names stand for, once there are as many as are needed: all
// that there are then. Where there are fewer when the wait is over the error is
// ErrNotPublished, beside those that were found. What is kept until it is read is read by who
// waits with it for others.
func LookupSome(p Plane, w Wanted, done func(found []Published, err error)) {
	nameQuestion{op: opLookup, wanted: w}.ask(p, done)
}

// Unpublish forgets names, one after the other, each in the first of the spaces that has it; without names all of the
// owner's there. Only its owner may do that; one without a world stands for whoever it is. The errors are
// ErrNotPublished and ErrNotOwner.
func Unpublish(p Plane, spaces, names []string, owner world.Proc, done func(err error)) {
	w := Wanted{Spaces: spaces, Names: names, By: owner}
	nameQuestion{op: opUnpublish, wanted: w}.ask(p, func(_ []Published, err error) { done(err) })
}

// namesService is the head's service that has the names.
const namesService = "names"
