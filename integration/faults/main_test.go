package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// patience bounds each wait without a fault. Only a failing test reaches it.
const patience = 40 * time.Second

// The environment of a child.
const (
	roleVariable   = "CASTNET_FAULTS_ROLE"
	configVariable = "CASTNET_FAULTS_CONFIG" // JSON
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "panics":
		panic("no way on")
	case "gobbles":
		gobble()
	}
	proc.Main(tickerDef()) // a proc that a hostd launched never returns
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// gobble takes all permitted memory.
func gobble() {
	fmt.Fprintln(os.Stderr, "hungry")
	for all := [][]byte{}; ; {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		if len(all) > 1<<10 { // nobody holds it to less
			os.Exit(0)
		}
	}
}

// role is the part of a child. It starts as its configuration says, then answers one order after
// the other. close is called after the last order.
type role interface {
	obey(o order) (report, error)
	close() error
}

// play is the life of a child. It prints `{}` when it is ready, and ends when its stdin does.
func play(name string) int {
	roles := map[string]func(config []byte) (role, report, error){"server": newServerRole,
		"worker": newWorkerRole, "owner": newOwnerRole}
	start := roles[name]
	if start == nil {
		fmt.Fprintf(os.Stderr, "%s=%q is no role\n", roleVariable, name)
		return 2
	}
	r, ready, err := start([]byte(os.Getenv(configVariable)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		return 1
	}
	if err := serve(r, ready, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		return 1
	}
	if err := r.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		return 1
	}
	return 0
}

func serve(r role, ready report, in io.Reader, out io.Writer) error {
	say := json.NewEncoder(out)
	if err := say.Encode(ready); err != nil {
		return err
	}
	for lines := json.NewDecoder(bufio.NewReader(in)); ; {
		var o order
		switch err := lines.Decode(&o); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		answer, err := r.obey(o)
		if err != nil {
			answer.Err = err.Error()
		}
		if err := say.Encode(answer); err != nil {
			return err
		}
	}
}
