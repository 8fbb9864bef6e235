// Package logfile reads the files that hold the output of processes. It follows their lines, bounds
// their size, and returns their last lines.
//
// A process holds its files itself, so neither a slow reader nor the end of the reader blocks it. A
// usual log rotation cannot take such a file away. Instead [Output.Follow] punches a hole into the
// old part of a file. The length and all offsets stay valid.
//
// A program that reads a file from its beginning sees NUL bytes in the hole; `tail` and Follow do
// not. Without holes (some file systems, and systems other than Linux) the file restarts empty. A
// line written in those microseconds can be lost.
//
// Output faster than Follow is discarded unread, and counted. When the disk is nearly full, all but
// the last 64 KiB of each file is discarded and counted. Writes refused by the kernel are known to
// the process only.
//
// # Invariants
//
//   - LOG-1 (bounds): Each file keeps its newest File.Cap bytes, plus at most as many older bytes,
//     while a reader follows. Lines and tails have limits. A longer line is cut and ends with
//     TruncatedMark.
//   - LOG-2 (whole lines): A reader gets every line that was not discarded, in order and unsplit.
//     Discarded bytes are counted. Consecutive parts ([File.Read]) have each line once; lines that
//     are passed over for lag are counted.
package logfile
