package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// readInvitation reads the invite of --join-mesh, and refuses one that is not for this host.
func (c config) readInvitation() (*agent.Invitation, error) {
	if c.joinMesh == "" {
		return nil, nil
	}
	if c.joinMesh == "-" && c.conn.TokenFile == "-" {
		return nil, cli.Usagef("want standard input for one of --join-mesh and --token-file, got both")
	}
	i, err := parseInvitationFile(c.joinMesh, c.conn.Stdin)
	switch {
	case err != nil:
		return nil, cli.Usagef("--join-mesh %s: %w", c.joinMesh, err)
	case i.Host != c.label:
		return nil, cli.Usagef("--join-mesh %s: the invite is for host %s, and this is host %s: want --label %s",
			c.joinMesh, i.Host, c.label, i.Host)
	case i.Space != c.space:
		return nil, cli.Usagef("--join-mesh %s: the invite is for %s, and this host is in %s: want --namespace %s",
			c.joinMesh, i.Space, c.space, i.Space.Namespace())
	}
	return &i, nil
}

// parseInvitationFile reads the invite in a file; - is stdin.
func parseInvitationFile(path string, stdin io.Reader) (agent.Invitation, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return agent.Invitation{}, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, agent.MaxInvitationText+2))
	if err != nil {
		return agent.Invitation{}, err
	}
	return agent.ParseInvitation(strings.TrimSpace(string(text)))
}

// joinInvited makes the host a part of the mesh of its invite, before hostd is ready. It waits
// until the ranks run here, or until the owner has refused the host.
func (n *node) joinInvited(ctx context.Context, log zerolog.Logger) error {
	if n.invitation == nil {
		return nil
	}
	n.pendingReason.Store(new("joining mesh " + n.invitation.Mesh.String()))
	limit := 2 * (keys.MeshSpawnTimeout.Get(n.keys) + keys.MeshCleanupTimeout.Get(n.keys))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	joined, err := n.invitation.Join(ctx, n.host.Proc(), n.host.ID())
	if err != nil {
		return err
	}
	said := "joined the mesh"
	if joined.Present {
		said = "the mesh has this host already: the invite was not used"
	}
	log.Info().Stringer("mesh", n.invitation.Mesh).Int("first_rank", joined.First).Int("ranks", joined.Count).
		Msg(said)
	return nil
}
