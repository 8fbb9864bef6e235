package agent

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/castnet-io/castnet/subjects"
)

// Claims of a Proof.
const (
	ProofReady   = "ready"   // of a proc, that it is the launched one
	ProofReadopt = "readopt" // of a host, that it has the state of the host that launched the proc
	ProofAdopted = "adopted" // of a proc, that it took that host for its own
)

// Proof proves a claim with the nonce of the proc's launch, which never leaves the two processes.
// It holds between that proc and that host, for one challenge.
func Proof(nonce, claim string, proc subjects.ProcID, host subjects.ActorID, challenge string) []byte {
	h := hmac.New(sha256.New, []byte(nonce))
	fmt.Fprintf(h, "%s %s %s %s", claim, proc, host, challenge)
	return h.Sum(nil)
}

// CheckProof reports whether a proof is that of Proof. An empty nonce proves nothing.
func CheckProof(proof []byte, nonce, claim string, proc subjects.ProcID, host subjects.ActorID,
	challenge string) bool {
	return nonce != "" && hmac.Equal(proof, Proof(nonce, claim, proc, host, challenge))
}
