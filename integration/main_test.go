package integration

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	// roleVariable makes the test binary an owner; see ownerMain.
	roleVariable = "CASTNET_INTEGRATION"
	roleOwner    = "owner"
	// binVariable is the folder of the programs built by TestMain.
	binVariable = "CASTNET_INTEGRATION_BIN"
)

func TestMain(m *testing.M) {
	host.Main(append(actortest.Actors(), counting.Def(), mesh.Def(), keeperDef(), printerDef())...)
	if os.Getenv(roleVariable) == roleOwner {
		os.Exit(ownerMain())
	}
	bin, err := buildPrograms()
	if err != nil {
		fmt.Fprintf(os.Stderr, "integration: %v\n", err)
		os.Exit(1)
	}
	testkit.Main(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(bin)
		os.Exit(code)
	}))
}

// buildPrograms builds the tested programs without the race detector, as users have them. Programs
// built by make are not linked again. They run from the tests' own folder, so each process there
// belongs to the tests. The folder is beside them, so hard links take no time.
func buildPrograms() (string, error) {
	for _, args := range [][]string{
		{"bin/castnet", "./cmd/client"}, {"bin/", "./cmd/hostd", "./examples/hello", "./examples/wordcount"},
	} {
		build := exec.Command("go", append([]string{"build", "-C", "..", "-o"}, args...)...)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %w\n%s", args, err, out)
		}
	}
	built, err := filepath.Abs(filepath.Join("..", "bin"))
	if err != nil {
		return "", err
	}
	if built, err = filepath.EvalSymlinks(built); err != nil {
		return "", err
	}
	bin, err := os.MkdirTemp(built, "integration-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"castnet", "hostd", "hello", "wordcount"} {
		if err := os.Link(filepath.Join(built, name), filepath.Join(bin, name)); err != nil {
			return "", err
		}
	}
	return bin, os.Setenv(binVariable, bin)
}

// program is the path of a program built by TestMain.
func program(name string) string { return filepath.Join(os.Getenv(binVariable), name) }

// ownerLease is the time for which procs outlive their owner.
const ownerLease = time.Second

// ownerMain is a client for rough tests. It connects by its environment and prints `connected`. On
// each line of stdin it spawns two procs a host and prints the mesh, or takes all hosts, gets two
// of its own and prints these or the error. It ends with stdin.
func ownerMain() int {
	ctx := context.Background()
	conn, err := mesh.Connect(ctx, mesh.Options{Label: "owner"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("connected")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		hosts, err := conn.Hosts(ctx)
		if err != nil {
			fmt.Println(err)
			continue
		}
		if in.Text() == getHosts {
			fmt.Println(gotHosts(ctx, conn, hosts))
			continue
		}
		procs, err := hosts.SpawnProcs(ctx,
			mesh.SpawnSpec{Name: "owned", PerHost: shape.Of("gpu", 2), Lease: ownerLease})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("mesh", procs.ID())
	}
	if err := conn.Close(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// getHosts is the line that makes an owner take hosts, and get some.
const getHosts = "hosts"

// gotHosts takes hosts and returns the others that it got.
func gotHosts(ctx context.Context, conn *mesh.Net, hosts mesh.HostMesh) string {
	if err := hosts.Take(ctx); err != nil {
		return err.Error()
	}
	allocator := host.ProcessHosts{Label: "mine", Bus: conn.Bus()}
	mine, err := conn.Allocate(ctx, allocator, "mine", shape.Of("host", 2))
	if err != nil {
		return err.Error()
	}
	return mine.String()
}
