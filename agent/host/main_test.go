package host_test

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/testkit"
)

// roleVar selects the kind of proc that the tests' own binary becomes.
const roleVar = "HOST_TEST_ROLE"

// The procs run the tests' own binary.
func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "hangs": // never says a word
		untilOrphaned()
	case "fails":
		fmt.Fprintln(os.Stderr, "no luck today")
		os.Exit(3)
	case "stubborn": // TERM does not stop it
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("I stay")
		untilOrphaned()
	}
	proc.Main(talkerDef())
	testkit.Main(m)
}

// untilOrphaned waits for the end of the host.
func untilOrphaned() {
	in, _, err := launch.FromEnv(os.Getenv)
	if err != nil {
		panic(err)
	}
	<-in.Lifeline()
	os.Exit(0)
}

var (
	talkerType = actor.NewType[*talker, actor.None]("talker")
	say        = actor.NewEndpoint[*talker, string, actor.None]("say")
)

// talker prints its messages.
type talker struct{}

func (*talker) say(_ *actor.Context, what string) (actor.None, error) {
	fmt.Println(what)
	return actor.None{}, nil
}

func talkerDef() actor.Def {
	return talkerType.Define(func(*actor.Context, actor.None) (*talker, error) { return &talker{}, nil },
		say.Handle((*talker).say))
}
