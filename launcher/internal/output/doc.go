// Package output writes the output of ranks: to gorun's own stdout and stderr on the head ([Console]), and to files on
// each node ([Logs]).
//
// # The head's side
//
// A Console gets bytes of ranks in any pieces and writes whole lines. Its rules:
//
//   - One rank without a label: bytes pass unchanged.
//   - More ranks, pipe or file: a line is written when it is complete, at end-of-file, or when it has grown to
//     [MaxLine]. Nothing is altered: a carriage return is an ordinary byte, binary data passes unchanged.
//   - More ranks, terminal: each line begins with its rank. A line that is still unfinished after [ShowAfter] is shown,
//     so that prompts can be answered; carriage returns redraw the last row in place, so that progress bars stay bars.
//
// No rank waits for the end of another rank's line. At most one line is open, that is, unfinished and already written;
// its rank's next output continues it. If another rank's line comes first, a newline ends the open one, and its rest
// is a new line with its own label. So the pieces of a line longer than MaxLine are each tagged, and binary data of a
// rank passes unchanged while the others are silent.
//
// # Order, blocking, memory
//
// [Console.Write] never blocks. Each distinct destination has one goroutine that writes; stdout and stderr share it if
// they are one terminal, pipe or file, so that neither breaks the other's lines. Credit bounds what waits to be
// written: the sender of the bytes has a window, and Config.Consumed gives it back. The bytes of an unfinished line
// are given back once everything before them has been written; else a line longer than the window could never end. So
// a stalled reader costs the windows plus at most MaxLine for each stream of a rank.
//
// # The node's side
//
// [OpenLogs] makes torchrun's tree of log files. A stream that is only redirected is a file that the rank itself
// writes; a tee'd stream passes through [Logs.Tee], which never blocks either, so that the console does not depend on
// the log's disk.
package output
