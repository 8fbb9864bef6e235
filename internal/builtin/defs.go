package builtin

import "github.com/castnet-io/castnet/actor"

// Defs returns the definitions of the built-in actor types.
func Defs() []actor.Def {
	return []actor.Def{
		echoType.Define(newEcho, echoEndpoint.Handle((*echo).echo)),
		counterType.Define(newCounter, add.Handle((*counter).add), get.Handle((*counter).get),
			reset.Handle((*counter).reset)),
		// BLT-3: its errors are a program's
		subjectProxyType.Define(newSubjectProxy, request.Handle((*subjectProxy).request),
			publish.Handle((*subjectProxy).publish)).ResumeOnError(),
	}
}
