package agent

import (
	"path/filepath"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// Bootstrap is what a host tells the proc it launches, over an inherited descriptor: it holds
// credentials, so it never stands in arguments or the environment.
type Bootstrap struct {
	Mesh      Mesh             `cbor:"1,keyasint"`
	Rank      int              `cbor:"2,keyasint"`
	Gen       int              `cbor:"3,keyasint"`
	Host      subjects.ActorID `cbor:"4,keyasint"` // the agent that waits for Ready
	Nonce     string           `cbor:"5,keyasint"`
	Bus       BusSettings      `cbor:"6,keyasint"`
	Root      string           `cbor:"7,keyasint,omitempty"`
	Namespace string           `cbor:"8,keyasint,omitempty"`
	Level     string           `cbor:"9,keyasint,omitempty"`  // log level
	Within    time.Duration    `cbor:"10,keyasint"`           // to be ready in
	Config    config.Snapshot  `cbor:"11,keyasint,omitzero"`  // pushed by the client that spawned it
	Orphan    time.Duration    `cbor:"12,keyasint,omitempty"` // how long a proc that is kept waits for another host; 0 = proc.adoption of its own
	First     uint64           `cbor:"13,keyasint,omitempty"` // packets of whoever had its address before, which its host may not know of, had numbers below this
}

// Launch is what a launched process reads first: to be a proc, or a host.
type Launch struct {
	Proc *Bootstrap `cbor:"1,keyasint,omitempty"`
	Host *AsHost    `cbor:"2,keyasint,omitempty"`
}

// AsHost is what a program tells a host that it launches as a process.
type AsHost struct {
	ID        subjects.HostID   `cbor:"1,keyasint"`
	Dir       string            `cbor:"2,keyasint,omitempty"`
	Allow     []string          `cbor:"3,keyasint,omitempty"`
	AllowUser bool              `cbor:"4,keyasint,omitempty"`
	Labels    map[string]string `cbor:"5,keyasint,omitempty"`
	Bus       BusSettings       `cbor:"6,keyasint"`
	Root      string            `cbor:"7,keyasint,omitempty"`
	Namespace string            `cbor:"8,keyasint,omitempty"`
	Level     string            `cbor:"9,keyasint,omitempty"`
	Ready     time.Duration     `cbor:"10,keyasint,omitempty"` // for its procs to be ready in
}

// ProcID is the address of the proc that is launched.
func (b Bootstrap) ProcID() subjects.ProcID { return b.Mesh.Proc(b.Rank, b.Gen) }

// SettingsOf are the settings for others to reach the bus as who has these options does. A server in this process
// says itself where it listens and who may come, where the options do not.
func SettingsOf(o bus.Options) BusSettings {
	s := BusSettings{
		URL: o.URL, Token: o.Token, User: o.User, Password: o.Password, Creds: absolute(o.Creds), NKey: absolute(o.NKey),
		JWT: o.JWT, Seed: o.Seed, CertFile: absolute(o.CertFile), KeyFile: absolute(o.KeyFile), CAFile: absolute(o.CAFile),
		TLSFirst: o.TLSFirst, InboxPrefix: o.InboxPrefix, Insecure: o.Insecure,
	}
	if server, ok := o.Server.(interface{ URL() string }); ok && s.URL == "" {
		s.URL = server.URL()
	}
	if server, ok := o.Server.(interface{ Token() string }); ok && s.Token == "" {
		s.Token = server.Token()
	}
	return s
}

// absolute makes a file name mean the same in a process that runs elsewhere.
func absolute(file string) string {
	if file == "" {
		return ""
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// BusSettings say how to reach the bus.
type BusSettings struct {
	URL         string `cbor:"1,keyasint"`
	Token       string `cbor:"2,keyasint,omitempty"`
	User        string `cbor:"3,keyasint,omitempty"`
	Password    string `cbor:"4,keyasint,omitempty"`
	Creds       string `cbor:"5,keyasint,omitempty"`
	NKey        string `cbor:"6,keyasint,omitempty"`
	CertFile    string `cbor:"7,keyasint,omitempty"`
	KeyFile     string `cbor:"8,keyasint,omitempty"`
	CAFile      string `cbor:"9,keyasint,omitempty"`
	TLSFirst    bool   `cbor:"10,keyasint,omitempty"`
	InboxPrefix string `cbor:"11,keyasint,omitempty"`
	Insecure    bool   `cbor:"12,keyasint,omitempty"`
	JWT         string `cbor:"13,keyasint,omitempty"`
	Seed        string `cbor:"14,keyasint,omitempty"`
}
