package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	terminalCodes = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	device        = regexp.MustCompile(`^(GPU|NIC)\d+$`)
	nicName       = regexp.MustCompile(`(NIC\d+): (\S+)`)
)

// parseMatrix reads the matrix that nvidia-smi topo -m and gorun topo print. It returns the paths between devices by
// their names: "GPU0 mlx5_0". Columns may be split into several blocks.
func parseMatrix(text string) map[string]string {
	text = terminalCodes.ReplaceAllString(text, "")
	cells, names, head := map[string]string{}, map[string]string{}, []string(nil)
	for _, m := range nicName.FindAllStringSubmatch(text, -1) {
		names[m[1]] = m[2]
	}
	name := func(d string) string {
		if n := names[d]; n != "" {
			return n
		}
		return d
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		n := 0
		for n < len(words) && device.MatchString(words[n]) {
			n++
		}
		switch {
		case n > 1, n == 1 && strings.ContainsRune(" \t", rune(line[0])):
			head = words[:n]
		case n == 1 && len(words) > len(head):
			for i, column := range head {
				cells[name(words[0])+" "+name(column)] = words[1+i]
			}
		}
	}
	return cells
}

// sameMatrix compares the cells that are in both outputs; every GPU must be in both.
func sameMatrix(outputs []string) error {
	theirs, ours := parseMatrix(outputs[0]), parseMatrix(outputs[1])
	if len(theirs) == 0 || len(ours) == 0 {
		return fmt.Errorf("no matrix: nvidia-smi has %d cells, gorun %d", len(theirs), len(ours))
	}
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		own, known := ours[key]
		switch {
		case known && own != theirs[key]:
			wrong = append(wrong, fmt.Sprintf("%s: nvidia-smi says %s, gorun %s", key, theirs[key], own))
		case !known && strings.Count(key, "GPU") == 2:
			wrong = append(wrong, key+" is not in gorun's matrix")
		}
	}
	return joined(wrong)
}

func joined(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "\n"))
}

// gpu has what both nvidia-smi --query-gpu and gorun topo --json report.
type gpu struct {
	PCI    string   `json:"pci_address"`
	Name   string   `json:"name"`
	UUID   string   `json:"uuid"`
	Memory int64    `json:"memory_bytes"`
	MIG    []string `json:"mig"`
}

func gorunGPUs(text string) ([]gpu, error) {
	var report struct {
		Machine struct {
			GPUs []gpu `json:"gpus"`
		} `json:"machine"`
	}
	from := strings.Index(text, "{") // after notes
	if from < 0 {
		return nil, errors.New("gorun topo --json printed no JSON")
	}
	err := json.NewDecoder(strings.NewReader(text[from:])).Decode(&report)
	return report.Machine.GPUs, err
}

// parseQuery reads the rows "ADDRESS, NAME, UUID, MEMORY MiB" of nvidia-smi, with addresses such as 00000000:1B:00.0.
func parseQuery(text string) (all []gpu) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) != 4 {
			continue
		}
		mebibytes, _ := strconv.ParseInt(strings.TrimSuffix(fields[3], " MiB"), 10, 64)
		address := strings.TrimPrefix(strings.ToLower(fields[0]), "0000")
		all = append(all, gpu{PCI: address, Name: fields[1], UUID: fields[2], Memory: mebibytes << 20})
	}
	return all
}

// sameGPUs compares GPUs by their PCI addresses.
func sameGPUs(outputs []string) error {
	theirs := parseQuery(outputs[0])
	ours, err := gorunGPUs(outputs[1])
	if err != nil {
		return err
	}
	var wrong []string
	if len(theirs) == 0 || len(theirs) != len(ours) {
		wrong = append(wrong, fmt.Sprintf("nvidia-smi has %d GPUs, gorun %d", len(theirs), len(ours)))
	}
	for _, t := range theirs {
		i := slices.IndexFunc(ours, func(o gpu) bool { return o.PCI == t.PCI })
		if i < 0 {
			wrong = append(wrong, t.PCI+" is not known to gorun")
			continue
		}
		o := ours[i]
		for _, field := range [][2]string{{t.Name, o.Name}, {t.UUID, o.UUID}} {
			if field[0] != field[1] {
				wrong = append(wrong, fmt.Sprintf("%s: nvidia-smi says %s, gorun %s", t.PCI, field[0], field[1]))
			}
		}
		// Only some releases count the memory that the driver reserves.
		if off := t.Memory - o.Memory; max(off, -off) > t.Memory/50 {
			wrong = append(wrong, fmt.Sprintf("%s: nvidia-smi says %d bytes of memory, gorun %d", t.PCI, t.Memory, o.Memory))
		}
	}
	return joined(wrong)
}

var migUUID = regexp.MustCompile(`UUID: (MIG-[^)]+)\)`)

// sameParts compares the MIG instances of GPUs.
func sameParts(outputs []string) error {
	var theirs, ours []string
	for _, m := range migUUID.FindAllStringSubmatch(outputs[0], -1) {
		theirs = append(theirs, m[1])
	}
	gpus, err := gorunGPUs(outputs[1])
	for _, g := range gpus {
		ours = append(ours, g.MIG...)
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if err == nil && !slices.Equal(theirs, ours) {
		err = fmt.Errorf("nvidia-smi has the parts %v, gorun %v", theirs, ours)
	}
	return err
}
