package plan

import "gorun/env/nccl"

// readConf parses the hosts' configuration files once. The library reads them only for variables that are not in the
// environment, so a variable that gorun added would override them.
func (b *builder) readConf() {
	b.conf, b.names = make([]map[string]nccl.Assignment, len(b.in.Nodes)), make([][]string, len(b.in.Nodes))
	for node := range b.in.Nodes {
		for _, file := range b.in.Nodes[node].Host.Conf {
			for _, s := range file.Settings() {
				if b.conf[node] == nil {
					b.conf[node] = map[string]nccl.Assignment{}
				}
				if _, ok := b.conf[node][s.Name]; !ok { // the earlier file takes precedence
					b.conf[node][s.Name] = s
					b.names[node] = append(b.names[node], s.Name)
				}
			}
		}
	}
}

// reportConf lists the settings that only configuration files make, each once with all nodes that have it.
func (b *builder) reportConf() {
	at := map[nccl.Assignment]int{}
	for node, names := range b.names {
		if b.first[node] < 0 {
			continue
		}
		for _, name := range names {
			if _, has := b.ofRank(b.first[node], name); has {
				continue
			}
			line := b.conf[node][name]
			i, known := at[line]
			if !known {
				i = len(b.out.Conf)
				at[line] = i
				b.out.Conf = append(b.out.Conf, ConfSetting{Assignment: line})
			}
			b.out.Conf[i].Nodes = append(b.out.Conf[i].Nodes, node)
		}
	}
}
