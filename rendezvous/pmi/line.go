package pmi

import "strings"

// parseLine parses a PMI-1 line, without its newline: "cmd=put kvsname=K key=k value=v", in any order. A piece without
// a "=" belongs to the value before it. Names of services and messages of abort may contain anything.
func parseLine(line string) (fields, error) {
	if i := strings.IndexFunc(line, isControl); i >= 0 {
		return nil, malformed("a control byte %q in %s", line[i], printable(line))
	}
	line, tail := freeText(line)
	f := make(fields, 0, 4+len(tail))
	begin, end := 0, -1 // of the last value, and of the piece
	for piece := range strings.SplitSeq(line, " ") {
		key, value, ok := strings.Cut(piece, "=")
		end += 1 + len(piece)
		switch {
		case piece == "":
			continue
		case ok && key != "":
			f = append(f, field{key, value})
			begin = end - len(value)
		case !ok && len(f) > 0:
			f[len(f)-1].value = line[begin:end]
		default:
			return nil, malformed("%s is not key=value", printable(piece))
		}
		if len(f) > maxFields {
			return nil, malformed("a line of more than %d fields", maxFields)
		}
	}
	return append(f, tail...), nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' }

// freeText cuts off the fields at the end of a line whose values may contain anything.
func freeText(line string) (rest string, tail fields) {
	command, _, _ := strings.Cut(strings.TrimPrefix(line, "cmd="), " ")
	switch command {
	case "abort":
		return cutField(line, "message")
	case "lookup_name", "unpublish_name":
		return cutField(line, "service")
	case "publish_name":
		rest, service := cutField(line, "service")
		if len(service) == 0 {
			return rest, nil
		}
		// A port has no spaces, so that it is the last field that looks like one.
		if i := strings.LastIndex(service[0].value, " port="); i >= 0 {
			service = append(service, field{"port", service[0].value[i+len(" port="):]})
			service[0].value = service[0].value[:i]
		}
		return rest, service
	}
	return line, nil
}

// cutField cuts off a field, up to the end of the line.
func cutField(line, key string) (string, fields) {
	before, value, ok := strings.Cut(line, " "+key+"=")
	if !ok {
		return line, nil
	}
	return before, fields{{key, value}}
}
