package actor

// SetValue attaches a package's state to the proc, under a key of a type only that package has.
func (p *Proc) SetValue(key, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[key] = value
}

// ValueOr is Value, once what is made has been attached if nothing was.
func (p *Proc) ValueOr(key any, made func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.values[key] == nil {
		p.values[key] = made()
	}
	return p.values[key]
}

// Value returns what SetValue attached.
func (p *Proc) Value(key any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.values[key]
}
