// A module of its own, without requirements, so that the peers that import it keep the dependency
// versions they choose themselves.
module github.com/castnet-io/castnet/bench/local

go 1.26.0
