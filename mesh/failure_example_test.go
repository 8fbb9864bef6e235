package mesh_test

import (
	"context"
	"log"

	"github.com/castnet-io/castnet/mesh"
)

// A program without a handler for failures prints the causes and ends with status 1.
func ExampleNet_Context() {
	conn, err := mesh.Connect(context.Background(), mesh.Options{})
	if err != nil {
		log.Fatal(err)
	}
	// … spawn meshes, and work with them …
	<-conn.Context().Done()
	log.Fatal(context.Cause(conn.Context()))
}
