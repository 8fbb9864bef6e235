package config_test

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/config"
)

// A client chooses two limits and pushes them to a proc. The machine of the proc overrides one of
// them.
func Example() {
	var client config.Config
	_ = config.ProcReadyTimeout.Set(&client, 2*time.Minute)
	_ = config.DeliveryTimeout.Set(&client, time.Minute)

	var proc config.Config
	_ = proc.LoadEnv(func(name string) string { // os.Getenv
		return map[string]string{"CASTNET_PROC_READY_TIMEOUT": "3m"}[name]
	})
	_, _ = proc.Push(client.Snapshot())

	fmt.Println(config.ProcReadyTimeout.Get(&proc), config.DeliveryTimeout.Get(&proc))
	for _, e := range proc.Entries() {
		if e.Changed {
			fmt.Println(e.Name, e.Value, "from", e.Layer, "default", e.Default)
		}
	}
	fmt.Println(config.TerminateConcurrency.Set(&proc, 1000))
	// Output:
	// 3m0s 1m0s
	// proc.ready-timeout 3m from environment default 30s
	// delivery.timeout 1m from client default 30s
	// terminate.concurrency="1000": want 1 to 256
}
