package bus

// IsServerAnswer parses a possible answer of a server.
func IsServerAnswer(data []byte) bool { return isServerAnswer(Msg{Data: data}) }
