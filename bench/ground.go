package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// ground is what a family is set up on: what it may use, and what is to be closed after it.
type ground struct {
	settings
	builds  *builds
	notes   io.Writer
	closers []func(context.Context) error
}

// later has something closed with the ground, before what was there earlier.
func (g *ground) later(f func(context.Context) error) { g.closers = append(g.closers, f) }

// close takes everything down, also when the run was interrupted.
func (g *ground) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, f := range slices.Backward(g.closers) {
		errs = append(errs, f(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
