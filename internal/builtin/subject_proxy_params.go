package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// maxSubject bounds the length of a subject in bytes.
const maxSubject = 256

// resolve returns the subject of one actor.
func (p subjectProxyParams) resolve(ctx *actor.Context) (string, error) {
	if p.Subject == "" {
		return "", fmt.Errorf(`there is no subject: want parameters such as {"subject":"work.{rank}"}`)
	}
	self := ctx.Self()
	filled := strings.NewReplacer(
		"{rank}", strconv.Itoa(int(self.Proc.Rank)), "{mesh}", self.Proc.Mesh.String(), "{actor}", self.Name,
	).Replace(p.Subject)
	if why := checkSubject(filled, ctx.Proc().Space()); why != "" {
		return "", fmt.Errorf("the subject %.*q %s", maxSubject, p.Subject, why)
	}
	return filled, nil
}

// checkSubject returns why a subject is forbidden, with the expected form, or "".
func checkSubject(subject string, space subjects.Space) string {
	first, _, _ := strings.Cut(subject, ".")
	switch {
	case len(subject) > maxSubject:
		return fmt.Sprintf("has %d bytes: want at most %d", len(subject), maxSubject)
	case !utf8.ValidString(subject):
		return "is not UTF-8"
	case strings.ContainsAny(subject, "{}"):
		return "has braces: want {rank}, {mesh} and {actor} at most"
	case strings.ContainsAny(subject, "*>"):
		return "has a wildcard: want one subject"
	case strings.ContainsFunc(subject, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "has a space or a control character: want tokens with dots between them"
	case strings.Contains("."+subject+".", ".."):
		return "has an empty token: want tokens with dots between them"
	case strings.HasPrefix(first, "$"), strings.HasPrefix(first, "_"):
		return "is one of the server's or an inbox: want one that starts neither with $ nor with _"
	case space.Owns(subject), subjects.Space{}.Owns(subject):
		return "is one of castnet's own: want one outside of " + space.Root() + "."
	}
	return ""
}
