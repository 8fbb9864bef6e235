// Package micro answers the discovery subjects of NATS micro services ($SRV, ADR-32) for hosts,
// procs and gateways, which have their own subscriptions. NATS's library is not used, because it
// subscribes each endpoint itself and cannot remove one.
//
//	err := micro.Serve(conn, micro.Service{
//		Name: "castnet-host", ID: id, Version: v, Info: info, Stats: stats,
//	})
//
// # Contract
//
//   - MIC-1 (discovery): A service answers PING, INFO and STATS once each, sent to all, to its
//     name, or to its ID. It has three subscriptions, whatever its number of endpoints. Removed
//     endpoints are not listed.
//   - MIC-4 (size): An answer too large for one message lists only its first endpoints: half, a
//     quarter … A schema describes a type's encoding/json form in at most 4 KiB.
//
// Requests arrive on a pump of the bus. If INFO needs other processes, the callback answers from a
// goroutine of its own.
package micro
