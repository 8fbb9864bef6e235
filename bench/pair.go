package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/bench/remote"
)

// pair is the two ends of a measurement between processes.
type pair struct {
	sender, receiver *child
	server           *child // nil: there is none, or it is in the process of an end
}

// endStarter starts the end that plays a part: its arguments are those of remote.Play.
type endStarter func(part ...string) (*child, error)

// site is where an end of our own stands: on the server of that URL or, when it is "", on one in
// its process.
type site struct {
	url, token string
	configs    map[string]string // files of the servers in processes, by part
}

// own starts ends that are this program, in a role, with more in their environment.
func own(role string, s site, more ...string) endStarter {
	return func(part ...string) (*child, error) {
		env := append([]string{urlEnv + "=" + s.url, tokenEnv + "=" + s.token, partEnv + "=" + part[0],
			configEnv + "=" + s.configs[part[0]]}, more...)
		if len(part) > 1 {
			env = append(env, addressEnv+"="+part[1])
		}
		return named(part[0])(startRole(role, env...))
	}
}

// foreign starts ends that are the program of a peer.
func foreign(p peer, program string) endStarter {
	return func(part ...string) (*child, error) {
		return named(part[0])(startChild(p.String(), exec.Command(program, part...)))
	}
}

// named adds the part a child plays to its name.
func named(part string) func(*child, error) (*child, error) {
	return func(c *child, err error) (*child, error) {
		if err == nil {
			c.name += " " + part
		}
		return c, err
	}
}

// startPair starts a receiver, and a sender that it has answered. After an error the
// pair has the parts that were started.
func startPair(ctx context.Context, start endStarter) (p *pair, err error) {
	p = &pair{}
	p.receiver, err = start(remote.ReceivePart)
	if err != nil {
		return p, err
	}
	address, err := p.receiver.line(ctx)
	if err != nil {
		return p, err
	}
	p.sender, err = start(remote.SendPart, address)
	if err != nil {
		return p, err
	}
	_, err = p.sender.line(ctx)
	return p, err
}

// end ends the sender first, which may have something to say to the receiver.
func (p *pair) end() error {
	var errs []error
	for _, c := range []*child{p.sender, p.receiver} {
		if c != nil {
			errs = append(errs, endChildren(c))
		}
	}
	return errors.Join(errs...)
}

// kill ends a pair that is in no state to end by itself.
func (p *pair) kill() {
	for _, c := range []*child{p.sender, p.receiver} {
		if c != nil {
			c.kill()
			_ = c.cmd.Wait() // that it was killed
		}
	}
}

// perform has the sender do n of a workload, and returns the usage of each process for all of them.
func (p *pair) perform(ctx context.Context, w remote.Workload, n int) ([]float64, []spent, error) {
	before, err := p.usage(ctx)
	if err != nil {
		return nil, nil, err
	}
	values, err := p.sender.perform(ctx, w.Name, n)
	if err != nil {
		return nil, nil, err
	}
	used, err := p.usage(ctx)
	for i := range used {
		used[i].Usage = used[i].Sub(before[i].Usage)
	}
	return values, used, err
}

// hold keeps the receiver from doing anything while f runs. When this process dies meanwhile, the
// system wakes the receiver and ends it, as it does with every group of processes that is stopped
// and has lost its parent (BENCH-5).
func (p *pair) hold(f func() error) error {
	pid := p.receiver.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", p.receiver.name, err)
	}
	err := f()
	if woken := syscall.Kill(pid, syscall.SIGCONT); woken != nil {
		err = errors.Join(err, fmt.Errorf("wake %s: %w", p.receiver.name, woken))
	}
	return err
}

// usage is what each process has used so far, by what it is called.
func (p *pair) usage(ctx context.Context) ([]spent, error) {
	var all []spent
	for _, s := range []struct {
		name string
		c    *child
	}{{"sender", p.sender}, {"receiver", p.receiver}, {"server", p.server}} {
		if s.c == nil {
			continue
		}
		u, err := s.c.usage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, spent{s.name, u})
	}
	return all, nil
}

// usage is the usage of a child so far.
func (c *child) usage(ctx context.Context) (remote.Usage, error) {
	line, err := c.ask(ctx, remote.UsageRequest)
	if err != nil {
		return remote.Usage{}, err
	}
	u, err := remote.ParseUsage(line)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name, err)
	}
	return u, err
}

// spent is what one process of a pair has used.
type spent struct {
	name string
	remote.Usage
}

// costs says what each of n took of every process.
func costs(used []spent, n int) string {
	text := ""
	for _, u := range used {
		each := func(v float64) float64 { return v / float64(n) }
		text += fmt.Sprintf("; %s %.0f ns CPU, %.1f B written in %.3f calls",
			u.name, each(float64(u.CPU/time.Nanosecond)), each(float64(u.Written)), each(float64(u.Writes)))
		if u.Peak > 0 {
			text += fmt.Sprintf(", at most %.0f MiB", u.Peak)
		}
	}
	return text[2:]
}

// cpuOf is the CPU time of all processes for each of n, in ns.
func cpuOf(used []spent, n int) float64 {
	var all time.Duration
	for _, u := range used {
		all += u.CPU
	}
	return float64(all/time.Nanosecond) / float64(n)
}
