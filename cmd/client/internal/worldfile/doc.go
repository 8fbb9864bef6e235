// Package worldfile parses the YAML files with worlds of `castnet plan`, `apply` and `delete`.
//
// A file has one world per document. The parser refuses unknown keys and names every mistake with
// its line and column. A world that is declared twice is refused. Nothing is sent before all files
// are valid.
package worldfile
