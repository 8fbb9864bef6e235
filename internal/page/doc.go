// Package page serves a live page of a castnet: hosts, meshes, ranks, casts, events and logs.
//
// [Open] makes the handler of `hostd --http` and `castnet ui`. Its files are static: plain
// JavaScript without a build. Data are JSON of the types of package inspect, and streams of it, one
// document a line:
//
//	p, err := page.Open(page.Options{Connect: connect, Token: token, Addr: "127.0.0.1:8222"})
//	http.ListenAndServe("127.0.0.1:8222", p)
//
// # Contract
//
//   - PAGE-1 (closed): A request for data wants the token. Every request wants the Host of the
//     listener and, with an Origin, that of the page. Others get 401 or 403, and learn nothing.
//   - PAGE-2 (idle): The connection to the bus is made for the first request for data. All streams
//     share each question to the bus. While no request is open, nothing is asked.
//   - PAGE-3 (bounds): A sample asks 4,096 procs at most: those of inspected regions first, others
//     in turn. Samples take at most a fifth of the time, or run every 10 s. Tables have 200 rows. A
//     page has 64 streams.
//   - PAGE-4 (read-only): Without Options.Act no request changes a mesh.
//
// The streams of all hosts and of one mesh have events as lines among the others. An end of a rank
// shows at once, also while a sample is taken, and no older sample hides it.
//
// A region is inspected while a stream of its mesh has it: /api/meshes/ID?region=host%3D7. A rank
// that is not asked keeps its last answer about messages. The stream tells the age of the oldest
// answer. Hosts tell status, restarts, CPU and memory of all ranks. A stream whose reader takes
// nothing for 10 s ends.
//
// Methods may be called concurrently. A failure of a sample is a line of its streams, and the next
// sample follows. Close ends all streams and waits for them.
package page
