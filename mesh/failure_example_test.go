package mesh_test

import (
	"context"
	"log"

	"github.com/castnet-io/castnet/mesh"
)

// A program that ends with status 1, and says why, when nothing in it has dealt with a failure.
func ExampleNet_Context() {
	net, err := mesh.Connect(context.Background(), mesh.Options{})
	if err != nil {
		log.Fatal(err)
	}
	// … spawn meshes, and work with them …
	<-net.Context().Done()
	log.Fatal(context.Cause(net.Context()))
}
