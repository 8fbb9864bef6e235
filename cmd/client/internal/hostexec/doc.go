// Package hostexec runs `castnet exec`: one command on many hosts, with equal results merged.
//
// A Spec names the targets: hosts, or the ranks of a region. Every target has a result, also those
// whose host refuses or does not answer. Equal results form a Group, the largest first. The exit
// code of the client is the highest of all groups.
package hostexec
