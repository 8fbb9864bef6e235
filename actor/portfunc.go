package actor

// OpenFunc opens a port that hands what is sent to its Ref to a function, in order per sender, for those who keep
// it in a way of their own. take runs on a pump or on a local sender's goroutine and must not block; its
// error tells the sender that a message was not taken. closed is told why nothing comes any more. The returned
// function ends the port.
func OpenFunc[T any](at Opener, take func(T) error, closed func(error)) (PortRef[T], func()) {
	raw := openAt(at, func(raw RawPort, in Incoming) error {
		v, err := read[T](raw, in)
		if err != nil {
			return err
		}
		return take(v)
	}, closed)
	return PortRef[T]{id: raw.ID(), via: raw.p}, raw.Close
}
