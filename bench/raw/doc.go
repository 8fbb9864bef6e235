// Package raw is plain NATS as the workloads of bench/remote see it: the base of what castnet does
// on the same server.
//
// A message is a publish, and a burst ends with one flush. A question is a request to a subscriber.
// The receiver's connection queues without a bound, so messages are lost elsewhere only.
// Nothing tells the sender what became of a message.
package raw
