package casts

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// MaxInFlight is how many casts of one Caster may be on their way.
const MaxInFlight = 8

// Message is what is cast: of a size in bytes. Gathered answers have the same size.
func Message(size int) []byte { return bytes.Repeat([]byte{'x'}, size) }

// Caster casts to every rank, waits for what the verb waits for, and checks it. ctx has a deadline.
type Caster interface {
	Reduce(ctx context.Context, m []byte) error
	Gather(ctx context.Context, m []byte) error
	Post(ctx context.Context, m []byte) error
	Close(ctx context.Context) error
}

// stamp puts the answer of a rank, to be gathered, into out.
func stamp(out, m []byte, rank int) {
	copy(out, m)
	binary.LittleEndian.PutUint32(out, uint32(rank))
}

// rankIn is the rank in an answer.
func rankIn(answer []byte) int { return int(binary.LittleEndian.Uint32(answer)) }

// checkSum returns an error if the sum of the answers of ranks to a message is wrong.
func checkSum(sum int64, ranks, size int) error {
	if want := int64(ranks) * int64(size); sum != want {
		return fmt.Errorf("the answers of %d ranks sum up to %d, want %d", ranks, sum, want)
	}
	return nil
}

// checkAnswers says what is wrong with gathered answers of a size, of which each belongs to one of
// the ranks.
func checkAnswers(all [][]byte, size int, ranks func(i int) int) error {
	for i, a := range all {
		if len(a) != size || rankIn(a) != ranks(i) {
			return fmt.Errorf("answer %d of %d is %.80q, want %d bytes that begin with rank %d", i, len(all), a,
				size, ranks(i))
		}
	}
	return nil
}

// every is the rank of an answer, when all are asked.
func every(i int) int { return i }
