// Package fanout runs one function for many items at a time, with a bound.
//
//	errs := make([]error, len(hosts))
//	fanout.Each(64, hosts, func(i int, id subjects.HostID) { errs[i] = ask(ctx, id) })
//
// The function writes its result to the place of its item, so results keep the order of the items.
// Errors are values of the function: one failure does not end the others.
package fanout
