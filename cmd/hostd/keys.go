package main

import (
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// loadKeys reads the limits of this hostd from file, environment and flags.
func (f flags) loadKeys(getenv func(string) string) (*keys.Config, error) {
	c := &keys.Config{}
	if f.configFile != "" {
		said, err := cli.ReadConfigFile(f.configFile)
		if err != nil {
			return nil, err
		}
		if err := c.LoadFile(said); err != nil {
			return nil, err
		}
	}
	if err := c.LoadEnv(getenv); err != nil {
		return nil, err
	}
	if f.readySet && f.ready > 0 {
		if err := keys.ProcReadyTimeout.Override(c, f.ready); err != nil {
			return nil, cli.Usagef("--ready-timeout: %w", err)
		}
	}
	if f.allowExec {
		if err := keys.HostAllowExec.Override(c, true); err != nil {
			return nil, cli.Usagef("--allow-exec: %w", err)
		}
	}
	return c, nil
}
