package actor_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// Decoded answers of all sizes are equal to the encoded ones, and an append to one changes no other.
func TestAnswerDecoder_decodedAnswersShareNoBytes(t *testing.T) {
	var want, got [][]byte
	var d actor.AnswerDecoder[[]byte]
	for i := range 200 {
		one := bytes.Repeat([]byte{byte(i)}, i*7)
		raw, err := wire.Marshal(one)
		require.NoError(t, err)
		answer, err := d.Decode(raw)
		require.NoError(t, err)
		want = append(want, one)
		got = append(got, answer)
		clear(raw[:len(raw)-len(one)])
	}
	for _, answer := range got {
		_ = append(answer, "changed"...)
	}
	require.Equal(t, want, got)
	_, err := d.Decode([]byte{0xff})
	require.Error(t, err)
	text, err := (&actor.AnswerDecoder[string]{}).Decode([]byte("\x61x"))
	require.NoError(t, err)
	require.Equal(t, "x", text)
}

// AppendRaw appends the bytes of Raw, whether the answer was encoded or not.
func TestAnswer_appendRawAppendsTheBytesOfRaw(t *testing.T) {
	for _, a := range []actor.Answer{{Value: 7}, {Value: "text"}, {Value: []byte{1, 2}}, {Value: []int(nil)},
		actor.EncodedAnswer([]byte{0x07})} {
		raw, err := a.Raw()
		require.NoError(t, err)
		appended, err := a.AppendRaw([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, append([]byte("before"), raw...), appended)
	}
	_, err := actor.Answer{Value: func() {}}.AppendRaw(nil)
	require.Error(t, err)
}
