package configstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// StepState is what became of one step of a plan.
type StepState string

// The states of a step.
const (
	StepDone     StepState = "done"
	StepFailed   StepState = "failed"
	StepUnknown  StepState = "unknown" // it may or may not be stored
	StepNotTried StepState = "not tried"
)

// Applied is what applying a file did. Steps that are done stay done when a later
// one fails: applying the file again does the rest.
type Applied struct {
	Steps    []AppliedStep `json:"steps"`
	Edges    []EdgeChange  `json:"edges"` // that change once all steps are done
	Complete bool          `json:"complete"`
	// Error is why a step failed; empty if none did.
	Error string `json:"error,omitempty"`
}

// AppliedStep is a step and what became of it.
type AppliedStep struct {
	PlanStep
	State StepState `json:"state"`
}

// ErrPlanChanged says that a document is not what a plan saw.
var ErrPlanChanged = errors.New("configstore: the plan is no longer true")

// ApplyTopology does what PlanTopology says, one document after the other, each by
// compare-and-set. base is that of a plan which must still be true: if a document
// changed since, nothing is done and the error, which wraps [ErrPlanChanged], names
// each. nil: whatever is true now is the plan.
//
// An error means that nothing was changed. What fails later is in the result.
func (w *Writer) ApplyTopology(ctx context.Context, f *TopologyFile, prune bool, base []PlanBase) (*Applied, error) {
	p, err := w.PlanTopology(ctx, f, prune)
	if err != nil {
		return nil, err
	}
	if base != nil {
		if err := p.stillTrue(base); err != nil {
			return nil, err
		}
	}
	versions := stepVersions{}
	for _, b := range p.Base {
		if !b.deleted { // of a tombstone an edit sees nothing
			versions[b.Key] = b.Version
		}
	}
	out := &Applied{Steps: []AppliedStep{}, Edges: p.Edges, Complete: true}
	for _, step := range p.Steps {
		done := AppliedStep{step, StepNotTried}
		if out.Complete {
			done.State = StepDone
			if err := step.run(ctx, w, &versions); err != nil {
				done.State, out.Complete, out.Error = failedState(err), false, err.Error()
			}
		}
		out.Steps = append(out.Steps, done)
	}
	return out, nil
}

// failedState tells what was refused from what the store did not answer.
func failedState(err error) StepState {
	switch rhumb.KindOf(err) {
	case rhumb.KindInvalid, rhumb.KindFenced, rhumb.KindForbidden, rhumb.KindNotFound, rhumb.KindUnsupported, rhumb.KindTooLarge:
		return StepFailed
	}
	return StepUnknown
}

// stillTrue compares with what an earlier plan rested on.
func (p *Plan) stillTrue(base []PlanBase) error {
	then := make(map[string]PlanBase, len(base))
	for _, b := range base {
		then[b.Key] = b
	}
	var changed []string
	for _, b := range p.Base {
		if was := then[b.Key]; was.Version != b.Version {
			changed = append(changed, changeText(PlanBase{Key: b.Key, Version: was.Version}, b))
		}
		delete(then, b.Key)
	}
	for _, b := range base {
		if _, gone := then[b.Key]; gone && b.Version > 0 {
			changed = append(changed, changeText(b, PlanBase{Key: b.Key}))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return rhumb.Errorf(rhumb.KindFenced, "%w, nothing was changed: %s; make a new plan", ErrPlanChanged, strings.Join(changed, "; "))
}

func changedSince(was, is PlanBase) error {
	return rhumb.Errorf(rhumb.KindFenced, "%w: %s", ErrPlanChanged, changeText(was, is))
}

func changeText(was, is PlanBase) string {
	name := strings.TrimPrefix(is.Key, Prefix)
	switch {
	case is.Version == 0:
		return fmt.Sprintf("%s was at version %d and is not there now", name, was.Version)
	case was.Version == 0:
		return fmt.Sprintf("%s was not there and is at version %d now, by %s", name, is.Version, is.who)
	}
	return fmt.Sprintf("%s was at version %d and is at version %d now, by %s", name, was.Version, is.Version, is.who)
}
