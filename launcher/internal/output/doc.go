// Package output carries what ranks print: to gorun's own stdout and stderr on the head ([Console]), and to files on
// each node ([Logs]).
//
// # The head's side
//
// A Console takes bytes of ranks in whatever pieces they arrive and writes whole lines. Its rules:
//
//   - One rank without a label: bytes pass as they come.
//   - More ranks, pipe or file: a line is written when it is complete, at end-of-file, or when it has grown to
//     [MaxLine]. Nothing is altered: a carriage return is an ordinary byte, binary data passes unchanged.
//   - More ranks, terminal: each line begins with its rank. A line that is still unfinished after [ShowAfter] is shown,
//     so that prompts can be answered; carriage returns redraw the last row in place, so that progress bars stay bars.
//
// No rank waits for another rank's line to end. One line at most is open, that is, unfinished and already written; what
// its rank prints next continues it directly. When another rank's line comes first, a newline ends the open one, and
// what follows of it is a new line of its rank, with its own label, under the same rules. So the pieces of a line
// longer than MaxLine stay apart and tagged, and a rank that prints binary data while the others are silent has it
// passed unchanged.
//
// # Order, blocking, memory
//
// [Console.Write] never blocks. Each distinct destination has one goroutine that writes; stdout and stderr share it
// when they are one terminal, pipe or file, so that neither tears the other's lines. What waits to be written is
// bounded by credit: the sender of the bytes has a window, and Config.Consumed gives it back as bytes leave. The bytes
// of an unfinished line count as having left once everything before them has been written; else a line longer than the
// window could never end. So a stalled reader costs the windows plus at most MaxLine a stream and rank.
//
// # The node's side
//
// [OpenLogs] makes torchrun's tree of log files. A stream that is only redirected is a file that the rank itself
// writes; a tee'd stream passes through [Logs.Tee], which never blocks either, so that the console does not depend on
// the log's disk.
package output
