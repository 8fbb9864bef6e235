package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// roleVariable makes the test binary an owner; see ownerMain.
	roleVariable = "CASTNET_INTEGRATION"
	roleOwner    = "owner"
	// hostsVariable is the number of hosts that an owner awaits.
	hostsVariable = "CASTNET_INTEGRATION_HOSTS"
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

// ownerLease is the time for which procs outlive their owner. An owner on a busy machine renews it
// in time.
const ownerLease = 5 * time.Second

// ownerMain is a client for rough tests. It connects by its environment and prints `connected`. It
// obeys each line of stdin, and prints the result or the error. It ends with stdin.
func ownerMain() int {
	ctx := context.Background()
	conn, err := mesh.Connect(ctx, mesh.Options{
		Label: "owner", Principal: mesh.UserPrincipal(subjects.Operator), // it takes hosts
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	atLeast, err := strconv.Atoi(os.Getenv(hostsVariable))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("connected")
	var procs mesh.ProcMesh
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		hosts, err := conn.AwaitHosts(ctx, atLeast)
		said := ""
		if err == nil {
			procs, said, err = obey(ctx, conn, hosts, procs, in.Text())
		}
		if err != nil {
			said = err.Error()
		}
		fmt.Println(said)
	}
	if err := conn.Close(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// The lines of stdin that an owner obeys.
const (
	spawnProcs  = "spawn" // two procs a host
	getHosts    = "hosts" // takes all hosts, and gets two of its own
	spawnOnOne  = "one"   // two procs on one host
	detachProcs = "detach"
	adoptProcs  = "adopt"
	growProcs   = "grow"   // by one host
	shrinkProcs = "shrink" // by one host
)

// obey carries out a line of stdin. It returns the mesh and what to print.
func obey(
	ctx context.Context, conn *mesh.Net, hosts mesh.HostMesh, p mesh.ProcMesh, line string,
) (_ mesh.ProcMesh, said string, err error) {
	spec := mesh.SpawnSpec{Name: "owned", PerHost: shape.Of("gpu", 2)}
	switch line {
	case spawnProcs:
		spec.Lease = ownerLease
		p, err = hosts.SpawnProcs(ctx, spec)
	case getHosts:
		return p, gotHosts(ctx, conn, hosts), nil
	case spawnOnOne:
		p, err = hosts.Slice("host", 0, 1).SpawnProcs(ctx, spec)
	case detachProcs:
		_, err = p.Detach(ctx)
	case adoptProcs:
		p, err = conn.Adopt(ctx, "owned", 0)
	case growProcs:
		for i, h := range hosts.Hosts() {
			if !slices.Contains(p.Describe().Hosts, h) {
				p, err = p.Grow(ctx, hosts.Slice("host", i, i+1))
				return p, p.Extent().String(), err
			}
		}
		err = errors.New("no host is free")
	case shrinkProcs:
		p, err = p.Shrink(ctx, 1)
		return p, p.Extent().String(), err
	default:
		err = fmt.Errorf("unknown line %q", line)
	}
	return p, "mesh " + p.ID().String(), err
}

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
