package inverted

import "testing"

func TestLockBoth(*testing.T) { lockBoth() }
