package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // the data travels in the program
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// packed is described in digits.md.
//
//go:embed digits.csv.gz
var packed []byte

const (
	side    = 8
	pixels  = side * side
	classes = 10
	white   = 16 // a pixel's largest value
)

// image is a digit: its pixels, row by row, between 0 and 1, and which digit it is.
type image struct {
	pixels [pixels]float32
	digit  int
}

// heldOut is how many images are kept for judging the network: a fifth.
const heldOut = 360

// digits returns the images to learn from and those to judge by, shuffled alike on all ranks.
func digits(seed uint64) (training, test []image, err error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, nil, fmt.Errorf("digits.csv.gz: %w", err)
	}
	images, err := parse(reader)
	if err != nil {
		return nil, nil, fmt.Errorf("digits.csv.gz: %w", err)
	}
	dice(seed, 0).Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
	split := len(images) - heldOut
	return images[:split], images[split:], nil
}

func parse(text io.Reader) (images []image, err error) {
	for lines := bufio.NewScanner(text); ; {
		if !lines.Scan() {
			return images, lines.Err()
		}
		fields := strings.Split(lines.Text(), ",")
		if len(fields) != pixels+1 {
			return nil, fmt.Errorf("line %d has %d numbers, not %d", len(images)+1, len(fields), pixels+1)
		}
		var one image
		for i, field := range fields {
			value, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", len(images)+1, err)
			}
			if i < pixels {
				one.pixels[i] = float32(value) / white
			} else {
				one.digit = value
			}
		}
		images = append(images, one)
	}
}

// dice gives the same numbers on all ranks: use 0 is the split of the data, 1 the first weights, and 2 + n the order in
// epoch n.
func dice(seed, use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// draw shows images side by side with what the network takes them for.
func draw(images []image, guesses []int) string {
	const shades = " .:-=+*#@"
	var lines []string
	for row := range side {
		line := ""
		for _, one := range images {
			for _, value := range one.pixels[row*side : (row+1)*side] {
				shade := shades[int(value*float32(len(shades)-1))]
				line += string([]byte{shade, shade})
			}
			line += "  "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	verdicts := ""
	for i, one := range images {
		verdict := fmt.Sprintf("    this is a %d", guesses[i])
		if guesses[i] != one.digit {
			verdict = fmt.Sprintf("    %d? no, a %d", guesses[i], one.digit)
		}
		verdicts += fmt.Sprintf("%-*s", 2*side+2, verdict)
	}
	return strings.Join(append(lines, strings.TrimRight(verdicts, " ")), "\n")
}
