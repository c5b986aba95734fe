package pmi

import (
	"errors"

	"gorun/rendezvous/exchange"
	"gorun/rendezvous/world"
)

// namesSpace is where names lie that ranks publish by PMI-1 and PMI-2.
const namesSpace = "pmi"

// maxName and maxPort are the most bytes in a published name, and in what it stands for.
const (
	maxName = 4096
	maxPort = 64 << 10
)

// name1 publishes, looks up or forgets a name by PMI-1.
func (c *session) name1(f fields) error {
	name, port, err := nameOf(f, "service")
	if err != nil {
		return err
	}
	answer, err := c.later()
	if err != nil {
		return err
	}
	switch f.command() {
	case "publish_name":
		c.publish(name, port, func(err error) { answer(result1("publish_result", "info=ok", err)) })
	case "lookup_name":
		c.lookUp(name, func(port string, err error) { answer(result1("lookup_result", "port="+port, err)) })
	default:
		c.unpublish(name, func(err error) { answer(result1("unpublish_result", "info=ok", err)) })
	}
	return nil
}

// result1 is the answer to a request about names.
func result1(command, value string, err error) string {
	if err != nil {
		return "cmd=" + command + " rc=1 msg=" + nameFault(err) + "\n"
	}
	return "cmd=" + command + " rc=0 " + value + "\n"
}

// name2 does the same by PMI-2.
func (c *session) name2(f fields) error {
	name, port, err := nameOf(f, "name")
	if err != nil {
		return err
	}
	answer, err := c.later()
	if err != nil {
		return err
	}
	result := func(err error, pairs ...string) {
		if err != nil {
			pairs = []string{"rc", "1", "errmsg", nameFault(err)}
		}
		answer(answerTo(f, pairs...))
	}
	switch f.command() {
	case "name-publish":
		c.publish(name, port, func(err error) { result(err, "rc", "0") })
	case "name-lookup":
		c.lookUp(name, func(port string, err error) {
			result(err, "port", port, "value", port, "rc", "0") // Slurm's clients want the second
		})
	default:
		c.unpublish(name, func(err error) { result(err, "rc", "0") })
	}
	return nil
}

// nameOf gives the name of a request, and the port that it is to stand for.
func nameOf(f fields, key string) (name, port string, err error) {
	if name, err = f.need(key); err != nil {
		return "", "", err
	}
	if f.command() == "publish_name" || f.command() == "name-publish" {
		if port, err = f.need("port"); err != nil {
			return "", "", err
		}
	}
	if len(name) > maxName || len(port) > maxPort {
		return "", "", malformed("%s with a name of %d bytes for %d bytes", printable(f.command()), len(name), len(port))
	}
	return name, port, nil
}

// nameFault is an error of names in the words that Hydra has for it.
func nameFault(err error) string {
	switch {
	case errors.Is(err, exchange.ErrPublished):
		return "key_already_present"
	case errors.Is(err, exchange.ErrNotPublished):
		return "service_not_found"
	}
	return word(err.Error())
}

// publish makes a name known until the job ends, or somebody unpublishes it.
func (c *session) publish(name, port string, done func(error)) {
	exchange.Publish(c.server.cfg.Plane, exchange.Published{
		Space: namesSpace, Name: name, Value: []byte(port), Owner: c.p, Keep: exchange.KeepJob,
		WorldSize: len(c.space.w.Ranks),
	}, done)
}

func (c *session) lookUp(name string, done func(port string, err error)) {
	exchange.Lookup(c.server.cfg.Plane, exchange.Wanted{Spaces: []string{namesSpace}, Name: name, By: c.p},
		func(n exchange.Published, err error) { done(string(n.Value), err) })
}

// unpublish forgets a name. PMI lets any rank do that.
func (c *session) unpublish(name string, done func(error)) {
	exchange.Unpublish(c.server.cfg.Plane, namesSpace, name, world.Proc{}, done)
}
