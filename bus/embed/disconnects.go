package embed

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// disconnectSubject carries the server's events about closed connections of the default account,
// for its system account.
const disconnectSubject = "$SYS.ACCOUNT." + server.DEFAULT_GLOBAL_ACCOUNT + ".DISCONNECT"

// ExportDisconnects lets the clients of this server see the ends of their connections, in the form
// and on the subject of the system account: $SYS.ACCOUNT.$G.DISCONNECT. It is for servers without a
// ConfigFile, where all clients are equal.
func (s *Server) ExportDisconnects() error {
	system, clients := s.srv.SystemAccount(), s.srv.GlobalAccount()
	err := errors.New("the server has no system account")
	if system != nil {
		err = system.AddStreamExport(disconnectSubject, []*server.Account{clients})
	}
	if err == nil {
		err = clients.AddStreamImport(system, disconnectSubject, "")
	}
	if err != nil {
		return fmt.Errorf("embed: report disconnects: %w", err)
	}
	return nil
}
