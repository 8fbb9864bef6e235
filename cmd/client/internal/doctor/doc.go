// Package doctor runs the checks of `castnet doctor`.
//
// A doctor opens a bus of its own and joins as no process, because a user with too few permissions
// cannot join. Each check yields one Finding with a result, what was found, and a suggestion. The
// probes send to unused subjects and reach no one. bus.go checks the server, its permissions and
// JetStream; listeners.go looks for foreign subscribers; hosts.go asks the hosts.
package doctor
