package system

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/actor"
)

// NameTakenError refuses a name of a live mesh or world.
type NameTakenError struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`   // mesh, world, or program (which has reserved the name)
	Holder string `json:"holder"` // the ID of the mesh or the program
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("name %s is taken by %s %s", e.Name, e.Kind, e.Holder)
}

// Detail returns the form in which the error travels.
func (e *NameTakenError) Detail() (actor.Code, []byte) { return actor.CodeNameTaken, mustJSON(e) }

// FromDetail decodes the result of Detail.
func (e *NameTakenError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeNameTaken && json.Unmarshal(detail, e) == nil && e.Name != ""
}

// ExistsError refuses the declaration of a world that was declared differently before.
type ExistsError struct {
	World   string `json:"world"`
	Shape   string `json:"shape"`
	PerHost int    `json:"per_host"`
	Command string `json:"command"`
	// keys of the world file with other values
	Changes []string `json:"changes"`
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("world %s already exists with shape %s, %d procs per host and command %s, and with "+
		"another value of %s: want the same declaration, with new labels at most, or delete it first",
		e.World, e.Shape, e.PerHost, e.Command, strings.Join(e.Changes, ", "))
}

// Detail returns the form in which the error travels.
func (e *ExistsError) Detail() (actor.Code, []byte) { return actor.CodeConflict, mustJSON(e) }

// FromDetail decodes the result of Detail.
func (e *ExistsError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeConflict && json.Unmarshal(detail, e) == nil && e.World != "" && e.Shape != ""
}

// LabelError refuses to overwrite a label (WORLD-3).
type LabelError struct {
	Object    string `json:"object"` // a world, a host or a proc
	Label     string `json:"label"`
	Current   string `json:"current"`
	Requested string `json:"requested"`
}

func (e *LabelError) Error() string {
	return fmt.Sprintf("%s: cannot overwrite label %s: it is %q, not %q",
		e.Object, e.Label, e.Current, e.Requested)
}

// Detail returns the form in which the error travels.
func (e *LabelError) Detail() (actor.Code, []byte) { return actor.CodeConflict, mustJSON(e) }

// FromDetail decodes the result of Detail.
func (e *LabelError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeConflict && json.Unmarshal(detail, e) == nil && e.Label != ""
}

// mustJSON encodes texts and numbers, which cannot fail.
func mustJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
