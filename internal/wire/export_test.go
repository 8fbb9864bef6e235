package wire

// Measure is what a body is measured to take, and Worst what the worst of its size would.
func (f Format) Measure(data []byte, v any) (taken, worst int) {
	p := f.planOf(v)
	const limit = 1 << 50
	if f == CBOR {
		taken, _ = measureCBOR(data, p, limit)
	} else {
		taken = measureJSON(data, p, limit)
	}
	return taken, p.worst * len(data)
}

// Affords is what is done before data is read.
func (f Format) Affords(data []byte, v any) { _, _ = f.affords(data, v, 2) }
