package embed

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// endsSubject is where the server tells its system account which connections of the default account have ended.
const endsSubject = "$SYS.ACCOUNT." + server.DEFAULT_GLOBAL_ACCOUNT + ".DISCONNECT"

// ShowEnds shows the clients of this server which of their connections have ended, in the words and on the subject
// that the system account has: $SYS.ACCOUNT.$G.DISCONNECT. It is for servers without a ConfigFile, on which all
// clients are alike.
func (s *Server) ShowEnds() error {
	system, clients := s.srv.SystemAccount(), s.srv.GlobalAccount()
	err := errors.New("the server has no system account")
	if system != nil {
		err = system.AddStreamExport(endsSubject, []*server.Account{clients})
	}
	if err == nil {
		err = clients.AddStreamImport(system, endsSubject, "")
	}
	if err != nil {
		return fmt.Errorf("embed: show the ends of connections: %w", err)
	}
	return nil
}
