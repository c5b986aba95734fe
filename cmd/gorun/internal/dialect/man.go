package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// ManHead is the head of a manual page.
type ManHead struct {
	Name, Summary string
	Section       int
	Date, Version string
	See           []string // names of related pages in section 1
}

// Man returns the manual page of a command in man(7), from what [Help] shows.
func Man(head ManHead, c *cli.Command, page Page, commands []*cli.Command) string {
	b := newManPage(head)
	b.heading("Synopsis")
	for _, line := range strings.Split(c.UsageText, "\n") {
		b.roffParagraph(".B " + roff(strings.TrimSpace(line)))
	}
	b.heading("Description")
	b.paragraph("", c.Description)
	b.body(c, page, commands)
	return b.end(head)
}

// TopicMan returns the manual page of a topic, from what [TopicHelp] shows.
func TopicMan(head ManHead, name string) string {
	t := topics[slices.IndexFunc(topics, func(t topic) bool { return t.name == name })]
	head.Summary = strings.TrimSuffix(t.about, ".")
	b := newManPage(head)
	b.heading("Description")
	b.paragraph("", t.about)
	b.topic(t)
	return b.end(head)
}

func newManPage(head ManHead) *helpBuilder {
	b := &helpBuilder{roff: true}
	fmt.Fprintf(b, ".TH %s %d %s \"gorun %s\" \"gorun manual\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(head.Name)),
		head.Section, head.Date, head.Version, roff(head.Name), roff(head.Summary))
	return b
}

func (b *helpBuilder) end(head ManHead) string {
	b.heading("See also")
	for i, name := range head.See {
		comma := ","
		if i == len(head.See)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(name), comma)
	}
	return b.String()
}

// roffParagraph writes a paragraph. A heading begins one already.
func (b *helpBuilder) roffParagraph(text string) {
	lines := strings.Split(b.String(), "\n")
	if last := lines[len(lines)-2]; !strings.HasPrefix(last, ".SH ") {
		b.WriteString(".PP\n")
	}
	b.WriteString(text + "\n")
}

// roff escapes a line of text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
