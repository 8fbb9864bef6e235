// A module of its own, with no requirement but bench/local, so that the peers that import it keep
// the dependency versions they choose themselves.
module github.com/castnet-io/castnet/bench/remote

go 1.26.0

require github.com/castnet-io/castnet/bench/local v0.0.0

replace github.com/castnet-io/castnet/bench/local => ../local
