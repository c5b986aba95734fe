package bench

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"strings"

	"gorun/comm"
	"gorun/env"
)

// size is one size of a measurement.
type size struct {
	bytes int64 // size of the whole vector if ranks have parts, as in nccl-tests
	count int   // elements of the vector, or of each part
}

// series lists sizes in bytes from begin to at most end.
func series(begin, end, factor, step int64) (list []int64) {
	for s := begin; s <= end; {
		list = append(list, s)
		next := s + step
		if step == 0 {
			if s > math.MaxInt64/factor {
				break
			}
			next = s * factor
		}
		if next <= s {
			break
		}
		s = next
	}
	return list
}

// sizes returns the sizes for an operation. Each has whole elements, at least one. If each rank has a part,
// all parts are equal. Duplicates are removed.
func (o *operation) sizes(c Config, ranks, element int) (list []size) {
	if o.name == "barrier" {
		return []size{{}}
	}
	unit := o.unit(ranks, element)
	for _, bytes := range series(c.Begin, c.End, c.Factor, c.Step) {
		s := whole(bytes, unit)
		if len(list) == 0 || list[len(list)-1] != s {
			list = append(list, s)
		}
	}
	return list
}

// unit returns the number of bytes that divides every size.
func (o *operation) unit(ranks, element int) int {
	if o.parts {
		return element * ranks
	}
	return element
}

// whole rounds a size down to a multiple of unit, but at least one unit.
func whole(bytes int64, unit int) size {
	count := max(int(bytes)/unit, 1)
	return size{int64(count) * int64(unit), count}
}

// rounded lists the requested sizes that were rounded, or returns "".
func (o *operation) rounded(c Config, ranks int, e *element) string {
	if o.name == "barrier" {
		return ""
	}
	text, more, unit := "", 0, o.unit(ranks, e.size)
	for _, bytes := range series(c.Begin, c.End, c.Factor, c.Step) {
		switch s := whole(bytes, unit); {
		case s.bytes == bytes:
		case text == "":
			text = fmt.Sprintf("whole elements (%s)", e.name)
			if o.parts {
				text += fmt.Sprintf(", as many for each of %d ranks", ranks)
			}
			text += fmt.Sprintf(": %d B is measured as %d B", bytes, s.bytes)
		default:
			more++
		}
	}
	if more > 0 {
		text += fmt.Sprintf(", and %d more like it", more)
	}
	return text
}

// buffers is the number of buffers of the largest size on each rank.
const buffers = 2

// fits returns an error if the sizes do not fit into memory. Otherwise the kernel might kill a rank during the
// measurement.
func (b *bench) fits(ctx context.Context) error {
	if len(b.sizes) == 0 {
		return nil
	}
	largest := b.sizes[len(b.sizes)-1].bytes
	ranks := b.group.Size() // of this host
	if self, err := env.Self(); err == nil && self.LocalWorldSize > 0 {
		ranks = min(ranks, self.LocalWorldSize)
	}
	need := float64(largest) * buffers * float64(ranks)
	free, known := availableMemory()
	if limit := float64(b.host.Memory); limit > 0 && (!known || limit < free) {
		free, known = limit, true
	}
	tooMuch := []uint8{0}
	if known && need > free {
		tooMuch[0] = 1
	}
	if err := comm.AllReduce(ctx, b.group, tooMuch, tooMuch, comm.Max); err != nil || tooMuch[0] == 0 {
		return err
	}
	return unsupported("-e %s: the buffers of %d ranks on a host take %.1f GiB, and %.1f GiB of memory are free: take a "+
		"smaller -e or fewer ranks",
		bytesText(b.End), ranks, need/(1<<30), free/(1<<30))
}

// availableMemory returns the memory that the kernel can allocate, in bytes. All ranks of this host share it.
func availableMemory() (bytes float64, known bool) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kib float64
		if strings.HasPrefix(lines.Text(), "MemAvailable:") {
			_, err := fmt.Sscanf(lines.Text(), "MemAvailable: %f kB", &kib)
			return kib * 1024, err == nil
		}
	}
	return 0, false
}
