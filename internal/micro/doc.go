// Package micro answers the discovery subjects of NATS micro services ($SRV, ADR-32) for what is served by
// subscriptions of its own: hosts, procs and gateways. The protocol's own library subscribes each endpoint
// itself and cannot forget one.
//
//	err := micro.Serve(conn, micro.Service{Name: "castnet-host", ID: id, Version: v, Info: info, Stats: stats})
//
// # Contract
//
//   - MIC-1: a service answers PING, INFO and STATS, to all, to its name, and to its ID, once each.
//   - MIC-2: what it subscribes are three subjects, whatever the number of its endpoints.
//   - MIC-3: INFO and STATS are made when they are asked for: an endpoint that is gone is not listed.
//   - MIC-4: an answer that does not fit into a message lists the first of its endpoints only: half of them, or
//     a quarter …
//   - MIC-5: a schema says how encoding/json writes a type, in at most 4 KiB.
//
// Requests come on a pump of the bus; who has to ask others for its INFO answers from a goroutine of its own.
package micro
