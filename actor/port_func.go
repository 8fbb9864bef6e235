package actor

// OpenPortFunc opens a port that passes its messages to a function, in order per sender. take runs
// on a pump or on a local sender's goroutine and must not block; its error refuses a message.
// closed receives the reason of the port's end. The returned function ends the port.
func OpenPortFunc[T any](at PortOwner, take func(T) error, closed func(error)) (PortRef[T], func()) {
	raw := openPrivate(at, func(raw RawPort, in Incoming) error {
		v, err := decodeIncoming[T](raw, in)
		if err != nil {
			return err
		}
		return take(v)
	}, closed)
	return PortRef[T]{portRef{id: raw.ID(), via: raw.p}}, raw.Close
}
