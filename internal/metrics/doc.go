// Package metrics presents the counters of hosts in the text format of Prometheus.
//
// [Write] formats the answers of hosts to agent.GetMetrics; [Handler] answers a scrape of one host.
// Counters are read at a scrape only: no message pays for them. Each sample has the label host.
// Other labels are mesh, type, endpoint, phase, status, kind, outcome, verdict and inbox. No label
// has a rank, a generation or an ID, so ranks and actors add no series.
//
// Functions may be called concurrently. A host that does not answer a scrape in time makes the
// answer 503 Service Unavailable. A proc that does not answer its host counts in
// castnet_silent_procs.
package metrics
