package diagnosis

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrorFile reads the file that PyTorch's @record writes for a rank that raised
// (TORCHELASTIC_ERROR_FILE): the exception as one line, its traceback, and when it was
// raised, to the second; the time is zero where the file doesn't say. Two shapes are
// known:
//
//	{"message": {"message": "Type: text", "errorCode": 1,
//	             "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}}
//	{"message": "text", "timestamp": 1700000000}
//
// ok is false for a file that holds no such thing, a half-written one among them.
func ErrorFile(data []byte) (msg string, callstack []string, at time.Time, ok bool) {
	var file struct {
		Message   json.RawMessage `json:"message"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if json.Unmarshal(data, &file) != nil || file.Message == nil {
		return "", nil, time.Time{}, false
	}
	var text string
	if json.Unmarshal(file.Message, &text) == nil {
		msg = oneLine(text)
		return msg, nil, unixTime(file.Timestamp), msg != ""
	}
	var message struct {
		Message   string `json:"message"`
		ExtraInfo struct {
			Callstack string          `json:"py_callstack"`
			Timestamp json.RawMessage `json:"timestamp"`
		} `json:"extraInfo"`
	}
	if json.Unmarshal(file.Message, &message) != nil {
		return "", nil, time.Time{}, false
	}
	msg, callstack = oneLine(message.Message), stackLines(message.ExtraInfo.Callstack)
	return msg, callstack, unixTime(message.ExtraInfo.Timestamp), msg != "" || callstack != nil
}

// PassOn is a rank's error file as torchrun copies it to its own: with the rank's exit code,
// which only the launcher knows, or -n after signal n. It is nil for a file that holds no error.
func PassOn(data []byte, code int) []byte {
	var file, message map[string]json.RawMessage
	if json.Unmarshal(data, &file) != nil || file["message"] == nil {
		return nil
	}
	if json.Unmarshal(file["message"], &message) == nil && message != nil {
		message["errorCode"] = json.RawMessage(strconv.Itoa(code))
		file["message"] = encode(message)
	}
	return encode(file)
}

// NewErrorFile is an error file as a launcher writes it of its own failure.
func NewErrorFile(headline, report string, at time.Time) []byte {
	return encode(map[string]any{"message": map[string]any{
		"message":   headline,
		"extraInfo": map[string]string{"py_callstack": report, "timestamp": strconv.FormatInt(at.Unix(), 10)},
	}})
}

// encode writes JSON as Python does: people read it as it is.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // what was read, and texts, never fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oneLine is the first line of a text that says something.
func oneLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(clean(line)); line != "" {
			return line
		}
	}
	return ""
}

// stackLimit is how many lines of a traceback are kept, the last ones.
const stackLimit = 1000

func stackLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return cleanAll(lines[max(len(lines)-stackLimit, 0):])
}

// unixTime reads seconds since 1970, as a number or as one in quotes, with or without a
// fraction. What is no time of this or the coming centuries is the zero time.
func unixTime(raw json.RawMessage) time.Time {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || !(seconds > 0 && seconds < 1<<33) {
		return time.Time{}
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9))
}
