package subjects_test

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Longest and plain names for all tests.
const (
	mesh1 = "trainers-7kd93x0b5m2qa"
	proc1 = mesh1 + "_12-0"
	host1 = "rack3n07-2m9qx1k4h0t7c"
	rank1 = mesh1 + ".12-0" // proc1 as two tokens
	alice = "u-alice." + proc1
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Generators of valid values.
var (
	genLabel  = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,31}`)
	genUnique = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,31}-[0-9a-z]{13}`)
	genName   = rapid.OneOf(genLabel, genUnique)
	genPort   = rapid.OneOf(genLabel, rapid.StringMatching(`_[0-9a-z]{1,31}`))
	genWhere  = rapid.StringMatching(`(_|0|[1-9][0-9]{0,8})(-(_|0|[1-9][0-9]{0,8})){0,3}`)
	genMesh   = rapid.Custom(func(t *rapid.T) subjects.MeshID {
		return must(subjects.ParseMeshID(genUnique.Draw(t, "mesh")))
	})
	genProc = rapid.Custom(func(t *rapid.T) subjects.ProcID {
		id := subjects.ProcID{Mesh: genMesh.Draw(t, "mesh"), Rank: rapid.Uint32().Draw(t, "rank"),
			Gen: rapid.Uint32().Draw(t, "gen")}
		if rapid.Bool().Draw(t, "shares its process") {
			id.Index = rapid.Uint32Range(0, id.Rank).Draw(t, "index")
		}
		return id
	})
	genPortID = rapid.Custom(func(t *rapid.T) subjects.PortID {
		return genProc.Draw(t, "proc").Actor(genName.Draw(t, "actor")).Port(genPort.Draw(t, "port"))
	})
	genPrincipal = rapid.StringMatching(`[hpsguowc]-[A-Za-z0-9][A-Za-z0-9_-]{0,31}`)
	genSender    = rapid.Custom(func(t *rapid.T) subjects.Sender {
		principal := must(subjects.ParsePrincipal(genPrincipal.Draw(t, "principal")))
		if rapid.Bool().Draw(t, "foreign") {
			return must(subjects.ParseSender(principal.String() + "." + genLabel.Draw(t, "process")))
		}
		return subjects.NewSender(principal, genProc.Draw(t, "process").Process())
	})
	genToken = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,31}(\.[A-Za-z0-9][A-Za-z0-9_-]{0,31}){0,3}`)
	genSpace = rapid.Custom(func(t *rapid.T) subjects.Space {
		root := rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,20}(\.[A-Za-z0-9]{1,8}){0,2}`).Draw(t, "root")
		return must(subjects.NewSpace(root, genLabel.Draw(t, "namespace")))
	})
)
