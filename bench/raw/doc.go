// Package raw is plain NATS as the workloads of bench/remote see it: the base of what castnet does on
// the same server.
//
// A message is a publish, and a burst ends with one flush. A question is a request to a subscriber.
// What the receiver's connection takes in waits without a bound: what is lost is lost elsewhere.
// Nothing tells the sender what became of a message.
package raw
