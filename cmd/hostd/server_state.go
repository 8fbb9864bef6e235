package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
)

// serverState is the stored state of the own server, with which kept procs and other programs find
// the next one (HOSTD-8).
type serverState struct {
	Port  int    `json:"port"`
	Token string `json:"token,omitempty"` // if generated
	// Revoked are the serials of refused keys, the newest last.
	Revoked []string `json:"revoked,omitempty"`
	// AuthorityKey in PEM; clients know its fingerprint.
	AuthorityKey string `json:"authority_key,omitempty"`
}

func serverStateFile(dir string) string { return filepath.Join(dir, "server.json") }

// loadState restores port and token of the last server, unless set, and its authority.
func (s *serverConfig) loadState(dir string) error {
	data, err := os.ReadFile(serverStateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var last serverState
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil {
		return fmt.Errorf("--state-dir: %s: %w", serverStateFile(dir), err)
	}
	s.revoked = last.Revoked
	if !s.portSet {
		s.port, s.portRestored = last.Port, true
	}
	if s.tokenGenerated && last.Token != "" {
		s.token = last.Token
	}
	s.authorityKey = last.AuthorityKey
	return nil
}

// saveState stores the address of the server. It replaces the file atomically.
func (s serverConfig) saveState(dir, serverURL string) error {
	last := serverState{Revoked: s.revoked, AuthorityKey: s.authorityKey}
	if s.tokenGenerated {
		last.Token = s.token
	}
	u, err := url.Parse(serverURL)
	if err == nil {
		last.Port, err = strconv.Atoi(u.Port())
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(last)
	}
	path := serverStateFile(dir)
	if err == nil {
		err = os.WriteFile(path+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	return nil
}
