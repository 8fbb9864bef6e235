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

// recalled is what the next hostd has to know of a server of its own, so that procs that were kept, and
// other programs, find it again (HOSTD-8).
type recalled struct {
	Port  int    `json:"port"`
	Token string `json:"token,omitempty"` // when nobody typed one
}

func recallFile(dir string) string { return filepath.Join(dir, "server.json") }

// recall takes the port and the token of the last server, where nothing else was said.
func (s *serverConfig) recall(dir string) error {
	data, err := os.ReadFile(recallFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var last recalled
	if err == nil {
		err = json.Unmarshal(data, &last)
	}
	if err != nil {
		return fmt.Errorf("--state-dir: %s: %w", recallFile(dir), err)
	}
	if !s.chosen {
		s.port, s.recalled = last.Port, true
	}
	if s.drawn && last.Token != "" {
		s.token = last.Token
	}
	return nil
}

// remember writes down where the server is. It replaces the file as a whole.
func (s serverConfig) remember(dir, serverURL string) error {
	last := recalled{}
	if s.drawn {
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
	path := recallFile(dir)
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
