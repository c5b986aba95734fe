package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata again from what is printed now")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// sampleReport is an all-reduce of three sizes between two ranks.
func sampleReport() *Report {
	none, some := int64(0), int64(3)
	place := func(us, gbps float64, wrong *int64) *Place {
		return &Place{
			Times: Times{Min: us * 0.9, Median: us, Max: us * 3, Spread: 12.3, Trials: 40, Batch: 7},
			AlgBW: gbps, BusBW: gbps, Wrong: wrong,
		}
	}
	o := find(operations, "allreduce")
	r := &Report{
		Version: "v1.2.3", Operation: o.name, Backend: "cpu", Ranks: 2, DType: "float32", Op: "sum", Root: -1,
		Checked: true,
		Model:   fit(o, 2, 8, 0.5, 1<<20, 250),
	}
	r.Rows = []Row{
		{Bytes: 8, Count: 2, OutOfPlace: place(0.52, 0.015, &none), InPlace: place(0.5, 0.016, &none), Bound: 2.5},
		{Bytes: 32768, Count: 8192, OutOfPlace: place(12.3, 2.664, &none), InPlace: place(14, 2.34, &some), Bound: 40},
		{Bytes: 1 << 20, Count: 1 << 18, OutOfPlace: place(251, 4.18, &none), InPlace: place(200, 5.24, &none), Bound: 16},
	}
	for i := range r.Rows {
		r.Rows[i].Predicted = r.Model.Microseconds(r.Rows[i].Bytes)
	}
	return r
}

func writeJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// written returns the output for a report.
func written(t *testing.T, r *Report, c Config) string {
	t.Helper()
	var out bytes.Buffer
	w := newWriter(c, Host{WriteJSON: writeJSON}, &out)
	require.NoError(t, w.begin(r))
	for _, row := range r.Rows {
		require.NoError(t, w.row(r, row))
	}
	r.conclude(c)
	require.NoError(t, w.end(r))
	return out.String()
}

func TestTable(t *testing.T) {
	text := written(t, sampleReport(), Config{Compute: time.Millisecond, Predict: 5 << 20, Model: true, Check: true})
	golden(t, "allreduce.txt", text)
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), maxWidth, line)
	}
	r := sampleReport()
	for i := range r.Rows {
		r.Rows[i].Predicted *= 5
	}
	require.Equal(t, "# model: left out, it fits badly: time/model is from 0.20 to 0.30; --json has it\n", r.modelTable())
	r = sampleReport()
	r.Operation, r.Op, r.Root, r.Checked, r.Model, r.Ranks, r.Rows = "broadcast", "", 1, false, nil, 4, r.Rows[:1]
	r.Rows[0].OutOfPlace, r.Rows[0].InPlace.Wrong, r.Rows[0].Predicted = nil, nil, 0
	golden(t, "broadcast.txt", written(t, r, Config{Link: 25e9}))
}

func TestCSV(t *testing.T) {
	text := written(t, sampleReport(), Config{CSV: true})
	golden(t, "allreduce.csv", text)
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+2*3)
}

func TestJSON(t *testing.T) {
	text := written(t, sampleReport(), Config{JSON: true, Compute: time.Second})
	golden(t, "allreduce.json", text)
	var back Report
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	require.Len(t, back.Rows, 3)
	require.Equal(t, int64(3), back.Wrong)
}

func TestSVG(t *testing.T) {
	text := written(t, sampleReport(), Config{SVG: "-"})
	golden(t, "allreduce.svg", text)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
	file := filepath.Join(t.TempDir(), "a.svg")
	require.Contains(t, written(t, sampleReport(), Config{SVG: file}), "# Out of bounds values : 3 FAILED\n")
	drawn, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(drawn))
	require.Contains(t, (&Report{Operation: "p2p"}).SVG(), "</svg>", "nothing was measured")
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0524: "0.052", 9.8765: "9.877", 12.345: "12.35", 123.45: "123.5",
		12345.6: "12346",
	} {
		require.Equal(t, want, number(v))
	}
	for v, want := range map[int64]string{
		0: "0 B", 8: "8 B", 1024: "1 KiB", 1536: "1.5 KiB", 64 << 20: "64 MiB",
		25_000_000: "23.84 MiB", 1 << 42: "4 TiB",
	} {
		require.Equal(t, want, bytesText(v))
	}
}
