package builtin

import "github.com/castnet-io/castnet/actor"

// Defs are the built-in actor types, bound to their code.
func Defs() []actor.Def {
	return []actor.Def{
		echoType.Made(newEcho, echoBack.By((*echo).back)),
		counterType.Made(newCounter, add.By((*counter).add), get.By((*counter).get), reset.By((*counter).reset)),
		plainType.Made(newPlain, ask.By((*plain).ask), tell.By((*plain).tell)).Enduring(), // BLT-4: its errors are a program's
	}
}
