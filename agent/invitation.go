package agent

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// MaxInviteTTL bounds the time for which an Invitation holds.
const MaxInviteTTL = 24 * time.Hour

// MaxInvitationText bounds the text of an Invitation, in bytes.
const MaxInvitationText = 1 << 10

const (
	invitationPrefix = "castnet-invite-1"
	wantInvitation   = "a line of castnet grow --invite: " + invitationPrefix +
		":<root>:<namespace>:<mesh>:<host>:<owner>:<secret>"
)

// Invitation lets one host join a mesh. It holds the private key of an invite. The owner of the
// mesh has the public key only.
type Invitation struct {
	Space subjects.Space
	Mesh  subjects.MeshID
	Host  string           // the label of the host
	Owner subjects.ActorID // of the mesh
	key   ed25519.PrivateKey
}

// NewInvitation returns an invitation with a new key.
func NewInvitation(
	space subjects.Space, mesh subjects.MeshID, host string, owner subjects.ActorID,
) (Invitation, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Invitation{}, fmt.Errorf("cannot make the key of an invite: %w", err)
	}
	return Invitation{Space: space, Mesh: mesh, Host: host, Owner: owner, key: key}, nil
}

// ParseInvitation reads the text of an invitation. Its errors do not quote this secret.
func ParseInvitation(text string) (Invitation, error) {
	malformed := errors.New("malformed invite: want " + wantInvitation)
	parts := strings.Split(text, ":")
	if len(text) > MaxInvitationText || len(parts) != 7 {
		return Invitation{}, malformed
	}
	space, err := subjects.NewSpace(parts[1], parts[2])
	if err != nil {
		return Invitation{}, malformed
	}
	mesh, err := subjects.ParseMeshID(parts[3])
	if err != nil {
		return Invitation{}, malformed
	}
	owner, err := subjects.ParseActorID(parts[5])
	if err != nil {
		return Invitation{}, malformed
	}
	seed, err := base64.RawURLEncoding.DecodeString(parts[6])
	if err != nil || len(seed) != ed25519.SeedSize || subjects.CheckLabel("host label", parts[4]) != nil {
		return Invitation{}, malformed
	}
	i := Invitation{Space: space, Mesh: mesh, Host: parts[4], Owner: owner, key: ed25519.NewKeyFromSeed(seed)}
	if i.Text() != text {
		return Invitation{}, malformed
	}
	return i, nil
}

// Text returns the whole invitation, with its secret.
func (i Invitation) Text() string {
	return strings.Join([]string{
		invitationPrefix, i.Space.Root(), i.Space.Namespace(), i.Mesh.String(), i.Host, i.Owner.String(),
		base64.RawURLEncoding.EncodeToString(i.key.Seed()),
	}, ":")
}

// String describes the invitation without its secret.
func (i Invitation) String() string {
	return fmt.Sprintf("invite of host %s to mesh %s", i.Host, i.Mesh)
}

// Key returns the public key of the invite.
func (i Invitation) Key() []byte { return i.key.Public().(ed25519.PublicKey) }

// Request returns the request of a host to join. It proves the private key for that host alone.
func (i Invitation) Request(host subjects.HostID) JoinRequest {
	r := JoinRequest{ID: i.Mesh.String(), Host: host, Key: i.Key()}
	r.Proof = ed25519.Sign(i.key, r.claim())
	return r
}

// maxJoins bounds the requests of one Join.
const maxJoins = 4

// Join makes a host a part of the mesh. After a takeover it asks the next owner, for a host that
// the mesh has already. It asks again over a broken link: the owner may have had one to an earlier
// process of the host. The process of the host has to send it.
func (i Invitation) Join(ctx context.Context, p *actor.Proc, host subjects.HostID) (JoinResponse, error) {
	owner := i.Owner
	for sent := 1; ; sent++ {
		joined, err := Join.Call(ctx, actor.RefOf[Agent](owner).Via(p), i.Request(host))
		fenced := AsFenced(err)
		if sent == maxJoins || fenced == nil && !errors.Is(err, actor.ErrLinkBroken) {
			return joined, i.explain(err)
		}
		if fenced != nil {
			owner = fenced.Current.Owner
		}
	}
}

// explain adds what an error means for a host that joins.
func (i Invitation) explain(err error) error {
	if err == nil {
		return nil
	}
	if actor.IsGone(err) {
		err = fmt.Errorf("its owner is gone, and the invite with it: %w", err)
	}
	return fmt.Errorf("cannot join mesh %s: %w", i.Mesh, err)
}

// InviteRequest asks the owner of a proc mesh to let a host join it.
type InviteRequest struct {
	ID   string        `cbor:"1,keyasint" json:"id"`   // of the mesh
	Host string        `cbor:"2,keyasint" json:"host"` // the label of the host
	TTL  time.Duration `cbor:"3,keyasint" json:"ttl"`  // at most MaxInviteTTL
}

// InviteResponse has the text of an Invitation. The owner does not keep it.
type InviteResponse struct {
	Invitation string `cbor:"1,keyasint" json:"invitation"`
}

// JoinRequest asks the owner of a mesh to add the sending host. Invitation.Request makes it.
type JoinRequest struct {
	ID    string          `cbor:"1,keyasint" json:"id"` // of the mesh
	Host  subjects.HostID `cbor:"2,keyasint" json:"host"`
	Key   []byte          `cbor:"3,keyasint" json:"key"`   // the public key of the invite
	Proof []byte          `cbor:"4,keyasint" json:"proof"` // its signature of the mesh and the host
}

// claim is what the proof signs.
func (r JoinRequest) claim() []byte {
	return []byte(invitationPrefix + " join " + r.ID + " " + r.Host.String())
}

// IsProved reports whether the sender had the private key of the invite, for this mesh and host.
func (r JoinRequest) IsProved() bool {
	return len(r.Key) == ed25519.PublicKeySize && ed25519.Verify(r.Key, r.claim(), r.Proof)
}

// JoinResponse has the ranks of the mesh on the host: Count ranks from First.
type JoinResponse struct {
	First int `cbor:"1,keyasint" json:"first"`
	Count int `cbor:"2,keyasint" json:"count"`
	// Present reports that the mesh had the host before the request.
	Present bool `cbor:"3,keyasint,omitempty" json:"present,omitempty"`
}
