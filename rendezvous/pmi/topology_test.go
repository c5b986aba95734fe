package pmi

import (
	"errors"
	"strings"
	"testing"
)

func TestTopologyFile(t *testing.T) {
	const ask, none = "cmd=get kvsname=w key=PMI_hwloc_xmlfile", "cmd=get_result rc=-1 " +
		"msg=key_PMI_hwloc_xmlfile_not_found value=unknown"
	cl := newCluster(t, 1, 0)
	names := make(chan string, 1)
	cl.servers[0].cfg.TopologyFile = func() (string, error) {
		if name := <-names; name != "" {
			return name, nil
		}
		return "/tmp/half", errors.New("the machine is strange")
	}
	k := cl.connect(cl.add(newWorld("w", 0)), 0)
	k.asks("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	names <- "/tmp/x/topology.xml"
	k.asks(ask, "cmd=get_result rc=0 msg=success value=/tmp/x/topology.xml")
	for _, unspeakable := range []string{"/tmp/a b/topology.xml", "/tmp/a\nb", "/" + strings.Repeat("x", valueMax), ""} {
		names <- unspeakable
		k.asks(ask, none)
	}
}
