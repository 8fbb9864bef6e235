package bus

// IsServerAnswer reads what is said to be the answer of a server.
func IsServerAnswer(data []byte) bool { return isServerAnswer(Msg{Data: data}) }
