package subjects_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestGrants_matchTheDocumentedTable(t *testing.T) {
	page, err := os.ReadFile("../docs/external-nats.md")
	require.NoError(t, err)
	space := subjects.Space{}
	written := func(all []string) string {
		var b strings.Builder
		for _, s := range all {
			b.WriteString(" `" + strings.TrimPrefix(s, space.String()+".") + "`")
		}
		return b.String()
	}
	for _, role := range []subjects.Role{subjects.RoleProgram, subjects.RoleCaller, subjects.RoleHost} {
		row := regexp.MustCompile(`(?m)^\| ` + string(role) + `: [^|]* \|([^|]*) \|([^|]*) \|$`).
			FindStringSubmatch(string(page))
		require.NotNil(t, row, role)
		grants := space.Grants(role, "_INBOX")
		require.Equal(t, written(grants.Publish), row[1], role)
		require.Equal(t, written(grants.Subscribe), row[2], role)
	}
}

func TestGrants_matchTheDocumentedConfiguration(t *testing.T) {
	page, err := os.ReadFile("../docs/external-nats.md")
	require.NoError(t, err)
	for _, role := range []subjects.Role{subjects.RoleProgram, subjects.RoleCaller} {
		block := regexp.MustCompile(`(?s)\n  ` + string(role) +
			` = \{\n    publish: \[(.*?)\]\n    subscribe: \[(.*?)\]\n`).FindStringSubmatch(string(page))
		require.NotNil(t, block, role)
		quoted := func(text string) (all []string) {
			for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(text, -1) {
				all = append(all, m[1])
			}
			return all
		}
		require.Equal(t, subjects.Space{}.Grants(role, "_INBOX"),
			subjects.Grants{Publish: quoted(block[1]), Subscribe: quoted(block[2])}, role)
	}
}

func TestGrants_stayInTheirSpaceAndInbox(t *testing.T) {
	space, err := subjects.NewSpace("a.b", "lab")
	require.NoError(t, err)
	require.Equal(t, subjects.Grants{Publish: []string{"a.b.v1.lab.cast.>"}, Subscribe: []string{"_MINE.>"}},
		space.Grants(subjects.RoleCaller, "_MINE"))
	require.Equal(t, []string{"a.b.v1.lab.>", "$SRV.>", "_MINE.>", "$SYS.REQ.ACCOUNT.PING.*"},
		space.Grants(subjects.RoleHost, "_MINE").Publish)
	require.Contains(t, space.Grants(subjects.RoleProgram, "_MINE").Publish, "a.b.v1.lab.hb.echo.*.*")
	require.Zero(t, space.Grants("stranger", "_MINE"))
}
