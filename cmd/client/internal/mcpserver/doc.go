// Package mcpserver serves commands of castnet as tools of the Model Context Protocol, to a client
// on stdin and stdout.
//
// A tool is one command: its name, its parameters and a line of arguments for the function that
// runs commands. So a tool has the JSON, the checks and the errors of its command. Names of
// parameters are those of flags, with _ for -.
//
// A result has the JSON of the command as its first text, and the command's notes as the second
// one. A tool that reads is an error only without JSON: its notes say which hosts or ranks are
// missing. A tool that acts is an error if any part of its work failed.
//
// # Contract
//
//   - MCP-1 (reading): Without Options.Act the server lists and runs no tool that changes anything.
//     Each tool that acts is marked as destructive.
//   - MCP-2 (arguments): Arguments are checked before the command runs. Text of a client is the
//     value of a flag or follows --, so it is never taken for a flag.
//   - MCP-3 (bounds): A message has at most 1 MiB, a result about 48 KiB of JSON that is still JSON
//     and a note on each list that was cut. Four commands run at a time.
//   - MCP-4 (ends): Each call ends by its deadline, by the client's cancellation, or soon after the
//     client has gone. Serve returns after the last one.
//
// # Details
//
// parameters.go reads arguments and describes them, tools.go is the list of tools, shorten.go cuts
// documents, server.go runs calls. Everything is safe for concurrent use.
package mcpserver
