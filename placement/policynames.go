package placement

import (
	"cmp"
	"strings"
)

// PolicyNames returns how a request maps, ranks and binds in prterun's terms, which PMIx programs
// read (PMIX_MAPBY, PMIX_RANKBY, PMIX_BINDTO). For objects that prterun does not have, such as
// GPUs, it uses gorun's name in the same form. bound reports whether ranks are bound to CPUs.
func (r Request) PolicyNames(bound bool) (mapBy, rankBy, bindTo string) {
	_, m := r.policy()
	m.Object = cmp.Or(m.Object, BySlot)
	if r.RankFile != nil {
		return "BYUSER", "BYUSER", r.bindingName(m, bound)
	}
	return r.mappingName(m), r.rankingName(m), r.bindingName(m, bound)
}

func (r Request) mappingName(m MapBy) string {
	name := "BY" + strings.ToUpper(m.Object.String())
	if m.Object == ByDistance {
		name = "MINDIST"
	}
	switch {
	case m.NoOversubscribe:
		name += ":NOOVERSUBSCRIBE"
	case m.Oversubscribe || r.Oversubscribe:
		name += ":OVERSUBSCRIBE"
	}
	if m.Span {
		name += ":SPAN"
	}
	return name
}

// rankingName returns FILL also if each rank has its own object, because prterun does.
func (r Request) rankingName(m MapBy) string {
	object := r.RankBy.objectOf(m)
	switch {
	case r.RankBy.Order == RankSpan:
		return "SPAN"
	case r.RankBy.Order == RankFill, object == ByCore, object == ByThread:
		return "FILL"
	}
	return strings.ToUpper(object.String())
}

func (r Request) bindingName(m MapBy, bound bool) string {
	if !bound {
		return "NONE"
	}
	object := ByCore
	switch b := r.BindTo; {
	case len(b.Lists) > 0, b.Object == AnyObject && m.PE > 0 && m.Threads:
		object = ByThread
	case b.Object != AnyObject:
		object = b.Object
	case m.Object.part() && m.PE == 0:
		object = m.Object
	}
	name := strings.ToUpper(object.String())
	if !r.BindTo.Given || r.BindTo.IfSupported {
		name += ":IF-SUPPORTED"
	}
	if r.BindTo.OverloadAllowed {
		name += ":OVERLOAD-ALLOWED"
	}
	return name
}
