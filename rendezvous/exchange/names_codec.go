package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
)

// nameOp is what a request about names is.
type nameOp int

const (
	opPublish nameOp = 1 + iota
	opLookup
	opUnpublish
)

// namesService is the head's service that keeps the names.
const namesService = "names"

// nameRequest is the body of a request to it, as JSON.
type nameRequest struct {
	Op        nameOp
	Published []Name // of opPublish
	Query     Query  // of the others
}

// nameReply is the body of a reply.
type nameReply struct {
	Status int // index in statuses
	Found  []Name
}

// statuses are the errors that a reply carries by number.
var statuses = [...]error{
	1: ErrPublished, 2: ErrNotPublished, 3: ErrNotOwner, 4: ErrTooMany, 5: errBadNameRequest,
	6: ErrTooManyWaits,
}

var errBadNameRequest = errors.New("exchange: cannot read a request about names")

func packNameReply(found []Name, err error) []byte {
	reply := nameReply{Found: found}
	for i, e := range statuses {
		if err != nil && errors.Is(err, e) {
			reply.Status = i
		}
	}
	return packNames(reply)
}

func packNames(message any) []byte {
	body, _ := json.Marshal(message) // it has nothing that JSON lacks
	return body
}

func readNameReply(body []byte) (found []Name, _ error) {
	var reply nameReply
	switch err := json.Unmarshal(body, &reply); {
	case err != nil || reply.Status < 0:
		return nil, errors.New("exchange: cannot read a reply about names")
	case reply.Status >= len(statuses):
		return nil, fmt.Errorf("exchange: names: error %d", reply.Status)
	}
	return reply.Found, statuses[reply.Status]
}

// readNameRequest returns whether a request can be served.
func readNameRequest(body []byte) (r nameRequest, ok bool) {
	err := json.Unmarshal(body, &r)
	return r, err == nil && len(r.Query.Spaces) <= maxSpaces && len(r.Query.Names) <= maxLookupNames
}
