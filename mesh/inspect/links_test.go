package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

func TestLinks_countMalformedMessages(t *testing.T) {
	require.Empty(t, droppedText(nil))
	require.Empty(t, droppedText(&actor.Stats{Foreign: 7, Bounced: 3}))
	require.Equal(t, "2 malformed, 4 of the dead, 5 late answers, 1 for unknown mailboxes, 9 with unknown "+
		"fields, 3 invalid replies",
		droppedText(&actor.Stats{Malformed: 2, Late: 5, Undeliverable: 1, Fenced: 4, Unknown: 9, IgnoredReplies: 3}))
}
