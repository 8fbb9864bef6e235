// Package inverted takes two locks in both orders, one after the other, so it never blocks.
package inverted

import "sync"

func lockBoth() {
	var a, b sync.Mutex
	both := func(first, second *sync.Mutex) {
		first.Lock()
		defer first.Unlock()
		second.Lock()
		defer second.Unlock()
	}
	both(&a, &b)
	both(&b, &a)
}
