package main

import "strings"

// jsonIntroduction is the text of docs/reference/json.md above the tables.
var jsonIntroduction = strings.ReplaceAll(`# JSON

Options such as ~--json~ and ~--report FILE~ write one JSON object: a document. Every document begins with the same
fields:

    {
      "schema": 1,
      "gorun": "0.2.0",
      "kind": "plan",

~kind~ says which other fields there are. ~schema~ is the version of that kind; it increases if a field is removed
or changes its meaning. New fields may come at any time: ignore those that you do not know. ~gorun~ is the version
of gorun that wrote the document.

- A name means the same in all documents. Names have units: ~_seconds~, ~_bytes~. Times are RFC 3339.
- Lists of CPUs and NUMA nodes are strings in the kernel's form, such as ~0-3,8~.
- An optional field is absent if it is unknown, zero or empty. A list is never null.
- Values of secret variables are ~<hidden>~. Bytes that are not UTF-8 become U+FFFD.
- Every command writes one document when it ends. Only ~--events~ writes several, each on one line, as things happen.
- Notes, warnings and errors are text on standard error. A command that fails before it has a result writes nothing
  to standard output. Decide by the exit code.

| kind | written by | schema |
| --- | --- | --- |
`, "~", "`")
