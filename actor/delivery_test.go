package actor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/link"
)

// TestDelivery_copiesSmallParts_DEL6: one slow actor must not keep the packets of all others.
func TestDelivery_copiesSmallParts_DEL6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packet := rapid.SliceOfN(rapid.Byte(), 1, 2000).Draw(t, "packet")
		var letters []link.BodyRef
		at := rapid.IntRange(0, len(packet)).Draw(t, "first")
		for n := rapid.IntRange(1, 20).Draw(t, "letters"); n > 0 && (at < len(packet) || len(letters) == 0); n-- {
			size := rapid.IntRange(0, min(100, len(packet)-at)).Draw(t, "size")
			letters = append(letters, link.BodyRef{Offset: uint32(at), Size: uint32(size)})
			at = min(at+size+rapid.IntRange(0, 9).Draw(t, "head"), len(packet))
		}
		last := letters[len(letters)-1]
		own := int(last.Offset + last.Size - letters[0].Offset)
		var want [][]byte
		for _, lt := range letters {
			want = append(want, lt.Body(packet))
		}
		d := &Delivery{Raw: packet, bodies: letters}
		d.keep(len(letters))
		require.LessOrEqual(t, len(d.Raw), 2*own)
		for i, lt := range d.bodies {
			require.Equal(t, want[i], lt.Body(d.Raw))
		}
		require.Equal(t, len(letters), d.count())
	})
}
