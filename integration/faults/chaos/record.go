package chaos

import "bytes"

// maxTape bounds what a proxy records, in bytes.
const maxTape = 64 << 20

// tape is what a proxy has recorded.
type tape struct {
	left    int // bytes that may still be recorded
	streams map[*flow]*bytes.Buffer
}

// Record begins to record all bytes.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tape = &tape{left: maxTape, streams: map[*flow]*bytes.Buffer{}}
}

// Recorded returns the bytes since Record, one entry for each direction of a pair.
func (p *Proxy) Recorded() (streams [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tape == nil {
		return nil
	}
	for _, b := range p.tape.streams {
		streams = append(streams, bytes.Clone(b.Bytes()))
	}
	return streams
}

// record keeps what a flow has read.
func (p *Proxy) record(f *flow, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tape == nil {
		return
	}
	data = data[:min(len(data), p.tape.left)]
	p.tape.left -= len(data)
	b := p.tape.streams[f]
	if b == nil {
		b = new(bytes.Buffer)
		p.tape.streams[f] = b
	}
	b.Write(data) // a Buffer returns no error
}
