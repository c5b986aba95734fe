package diagnosis

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrorFile reads the file that PyTorch's @record writes when a rank raises an exception (TORCHELASTIC_ERROR_FILE): the
// exception in one line, its traceback, and its time in seconds, zero if unknown. There are two formats:
//
//	{"message": {"message": "Type: text", "errorCode": 1,
//	             "extraInfo": {"py_callstack": "…", "timestamp": "1700000000"}}}
//	{"message": "text", "timestamp": 1700000000}
//
// ok is false for any other file, such as a partly written one.
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

// WithExitCode returns a rank's error file as torchrun passes it on: with the rank's exit code, or -n after signal n.
// It returns nil if the file has no error.
func WithExitCode(data []byte, code int) []byte {
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

// NewErrorFile returns the error file for a launcher's own failure.
func NewErrorFile(headline, report string, at time.Time) []byte {
	return encode(map[string]any{"message": map[string]any{
		"message":   headline,
		"extraInfo": map[string]string{"py_callstack": report, "timestamp": strconv.FormatInt(at.Unix(), 10)},
	}})
}

// encode writes JSON without HTML escapes, as Python does.
func encode(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // raw messages and strings never fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// oneLine returns the first line that is not blank.
func oneLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(clean(line)); line != "" {
			return line
		}
	}
	return ""
}

// stackLimit bounds a traceback; its last lines are kept.
const stackLimit = 1000

func stackLines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return cleanAll(lines[max(len(lines)-stackLimit, 0):])
}

// unixTime reads seconds since 1970, as a number or a quoted number, with or without a fraction. Implausible values are
// the zero time.
func unixTime(raw json.RawMessage) time.Time {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || !(seconds > 0 && seconds < 1<<33) {
		return time.Time{}
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9))
}
