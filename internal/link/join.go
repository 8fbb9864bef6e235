package link

// join joins pieces. The allocation of a large message often starts a garbage collection, and the
// collector spins until it has stopped this goroutine. It can after each piece, not in bytes.Join.
func join(pieces [][]byte) []byte {
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	whole := make([]byte, 0, size)
	for _, piece := range pieces {
		whole = appendPiece(whole, piece)
	}
	return whole
}

// appendPiece is a call, and so a place to stop at.
//
//go:noinline
func appendPiece(whole, piece []byte) []byte { return append(whole, piece...) }
