package main

import (
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// settings are the limits of this hostd, as its file, its environment and its flags say them.
func (f flags) settings(getenv func(string) string) (*keys.Config, error) {
	c := &keys.Config{}
	if f.configFile != "" {
		said, err := cli.ConfigFile(f.configFile)
		if err != nil {
			return nil, err
		}
		if err := c.FromFile(said); err != nil {
			return nil, err
		}
	}
	if err := c.From(getenv); err != nil {
		return nil, err
	}
	if f.readySaid && f.ready > 0 {
		if err := keys.HostReady.Override(c, f.ready); err != nil {
			return nil, cli.Usagef("--ready-timeout: %w", err)
		}
	}
	if f.allowExec {
		if err := keys.HostExec.Override(c, true); err != nil {
			return nil, cli.Usagef("--allow-exec: %w", err)
		}
	}
	return c, nil
}
