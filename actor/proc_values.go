package actor

// SetValue attaches a package's state to the proc, under a key of a private type.
func (p *Proc) SetValue(key, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[key] = value
}

// ValueOr returns Value, after attaching the result of made if there was none.
func (p *Proc) ValueOr(key any, made func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values[key] == nil {
		p.values[key] = made()
	}
	return p.values[key]
}

// Value returns the state attached by SetValue.
func (p *Proc) Value(key any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[key]
}
