package auth

// PushResult reads the answer of a server to a push.
var PushResult = pushResult
