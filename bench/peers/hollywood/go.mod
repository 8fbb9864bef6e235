// Hollywood, in a module of its own so that it runs with the dependency versions it chooses
// itself.
module github.com/castnet-io/castnet/bench/peers/hollywood

go 1.26.0

require (
	github.com/anthdm/hollywood v1.0.5
	github.com/castnet-io/castnet/bench/local v0.0.0
)

require (
	github.com/DataDog/gostackparse v0.7.0 // indirect
	github.com/klauspost/cpuid/v2 v2.0.9 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	google.golang.org/protobuf v1.32.0 // indirect
)

replace github.com/castnet-io/castnet/bench/local => ../../local
