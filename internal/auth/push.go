package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/bus"
)

// maxPushReply bounds the answer of a server.
const maxPushReply = 64 << 10

// Push reports the account to the servers of the system account's user. It returns when one of them
// has it.
func Push(ctx context.Context, a *Authority, o bus.Options) error {
	account, err := a.AccountJWT()
	if err != nil {
		return err
	}
	o = o.WithoutCredentials()
	o.UserJWT = a.MintPush
	o.InboxPrefix = ""
	o.Name = "castnet-auth"
	b, err := bus.Open(ctx, o)
	if err != nil {
		return fmt.Errorf("cannot push the account: %w", err)
	}
	reply, err := b.Control().Request(ctx, bus.Msg{Subject: PushSubject, Data: []byte(account)})
	if err == nil {
		err = pushResult(reply.Data)
	}
	if err != nil {
		err = fmt.Errorf("cannot push the account to %s: %w", b.Control().URL(), err)
	}
	return errors.Join(err, b.Close(ctx))
}

// pushResult reads the answer of a server.
func pushResult(data []byte) error {
	if len(data) > maxPushReply {
		return fmt.Errorf("the answer has %d bytes, want at most %d", len(data), maxPushReply)
	}
	var answer struct {
		Data  *struct{ Code int }
		Error *struct {
			Code        int
			Description string
		}
	}
	err := json.Unmarshal(data, &answer)
	switch {
	case err != nil:
		return fmt.Errorf("malformed answer: %w", err)
	case answer.Error != nil:
		return fmt.Errorf("the server refused it with code %d: %.200q", answer.Error.Code, answer.Error.Description)
	case answer.Data == nil || answer.Data.Code != 200:
		return errors.New("the server did not store it")
	}
	return nil
}
