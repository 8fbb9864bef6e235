package agent

import (
	"path/filepath"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// Bootstrap configures a proc. The host sends it over an inherited descriptor, because it holds
// credentials: arguments and environment are visible to others.
type Bootstrap struct {
	Mesh         Mesh             `cbor:"1,keyasint"`
	Rank         int              `cbor:"2,keyasint"`
	Gen          int              `cbor:"3,keyasint"`
	Host         subjects.ActorID `cbor:"4,keyasint"` // the agent to report Ready to
	Nonce        string           `cbor:"5,keyasint"`
	Bus          BusSettings      `cbor:"6,keyasint"`
	Root         string           `cbor:"7,keyasint,omitempty"`
	Namespace    string           `cbor:"8,keyasint,omitempty"`
	LogLevel     string           `cbor:"9,keyasint,omitempty"` // log level
	ReadyTimeout time.Duration    `cbor:"10,keyasint"`          // time to become ready
	Config       config.Snapshot  `cbor:"11,keyasint,omitzero"` // from the client of the spawn
	// time for which an orphan waits for another host; 0 = the proc's own proc.adoption-timeout
	AdoptionTimeout time.Duration `cbor:"12,keyasint,omitempty"`
	// lower packet numbers belong to an earlier process at this address, possibly unknown to the host
	FirstPacket uint64 `cbor:"13,keyasint,omitempty"`
}

// LaunchPayload is the first input of a launched process. It makes the process a proc or a host.
type LaunchPayload struct {
	Proc *Bootstrap     `cbor:"1,keyasint,omitempty"`
	Host *HostBootstrap `cbor:"2,keyasint,omitempty"`
}

// HostBootstrap configures a host that a program launches as a process.
type HostBootstrap struct {
	ID           subjects.HostID   `cbor:"1,keyasint"`
	Dir          string            `cbor:"2,keyasint,omitempty"`
	Allow        []string          `cbor:"3,keyasint,omitempty"`
	AllowUser    bool              `cbor:"4,keyasint,omitempty"`
	Labels       map[string]string `cbor:"5,keyasint,omitempty"`
	Bus          BusSettings       `cbor:"6,keyasint"`
	Root         string            `cbor:"7,keyasint,omitempty"`
	Namespace    string            `cbor:"8,keyasint,omitempty"`
	LogLevel     string            `cbor:"9,keyasint,omitempty"`
	ReadyTimeout time.Duration     `cbor:"10,keyasint,omitempty"` // time for its procs to become ready
	Config       config.Snapshot   `cbor:"11,keyasint,omitzero"`  // from the program that launches it
	Command      Command           `cbor:"12,keyasint,omitzero"`  // of its procs, if a spawn names none
	Maker        subjects.Sender   `cbor:"13,keyasint,omitzero"`  // the process that it obeys
}

// ProcID returns the address of the launched proc.
func (b Bootstrap) ProcID() subjects.ProcID { return b.Mesh.ProcID(b.Rank, b.Gen) }

// BusSettingsOf returns the settings with which another process reaches the same bus. A server in
// this process fills in its address and credentials where the options leave them open.
func BusSettingsOf(o bus.Options) BusSettings {
	s := BusSettings{
		URL: o.URL, Token: o.Token, User: o.User, Password: o.Password, Creds: absPath(o.Creds),
		NKey: absPath(o.NKey),
		JWT:  o.JWT, Seed: o.Seed, CertFile: absPath(o.CertFile), KeyFile: absPath(o.KeyFile),
		CAFile: absPath(o.CAFile), Fingerprint: o.Fingerprint,
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

// absPath makes a file name absolute, for a process with another working directory.
func absPath(file string) string {
	if file == "" {
		return ""
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// BusSettings hold the address of the bus and the credentials for it.
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
	Fingerprint string `cbor:"15,keyasint,omitempty"` // of the key behind the server's certificate
}
