package slogger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// New returns a logger for the Log field of options. It passes each line to log.
func New(log *slog.Logger) zerolog.Logger {
	h := log.Handler()
	return zerolog.New(writer{h}).Sample(enabled{h})
}

// enabled is a sampler that asks the handler whether it wants a line (SLOG-2).
type enabled struct{ handler slog.Handler }

// Sample reports whether a line of this level is wanted.
func (e enabled) Sample(level zerolog.Level) bool {
	return e.handler.Enabled(context.Background(), slogLevel(level))
}

// slogLevel returns the level of slog for one of zerolog.
func slogLevel(level zerolog.Level) slog.Level {
	switch level {
	case zerolog.TraceLevel:
		return slog.LevelDebug - 4
	case zerolog.DebugLevel:
		return slog.LevelDebug
	case zerolog.WarnLevel:
		return slog.LevelWarn
	case zerolog.ErrorLevel:
		return slog.LevelError
	case zerolog.FatalLevel:
		return slog.LevelError + 4
	case zerolog.PanicLevel:
		return slog.LevelError + 8
	}
	return slog.LevelInfo
}

// writer makes records of encoded lines.
type writer struct{ handler slog.Handler }

// Write takes a line without a level.
func (w writer) Write(line []byte) (int, error) { return w.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel takes a line. The handler decides again: loggers with a sampler of their own, such as
// rate-limited ones, do not ask it.
func (w writer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	ctx := context.Background()
	if !w.handler.Enabled(ctx, slogLevel(level)) {
		return len(line), nil
	}
	message, attrs, err := decodeLine(line)
	if err != nil {
		message, attrs = strings.TrimSpace(string(line)), nil
	}
	r := slog.NewRecord(time.Now(), slogLevel(level), message, 0)
	r.AddAttrs(attrs...)
	if err := w.handler.Handle(ctx, r); err != nil {
		return 0, err
	}
	return len(line), nil
}

// decodeLine returns the message and the attributes of a line (SLOG-1).
func decodeLine(line []byte) (message string, attrs []slog.Attr, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	first, err := d.Token()
	if err != nil {
		return "", nil, err
	}
	if first != json.Delim('{') {
		return "", nil, fmt.Errorf("a line that begins with %v: want an object", first)
	}
	all, err := decodeObject(d)
	if err != nil {
		return "", nil, err
	}
	for _, a := range all {
		switch a.Key {
		case zerolog.LevelFieldName: // the record has it
		case zerolog.MessageFieldName:
			message = a.Value.String()
		default:
			attrs = append(attrs, a)
		}
	}
	return message, attrs, nil
}

// decodeObject reads an object after its opening brace.
func decodeObject(d *json.Decoder) (attrs []slog.Attr, err error) {
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, slog.Attr{Key: key.(string), Value: v})
	}
	_, err = d.Token()
	return attrs, err
}

func decodeValue(d *json.Decoder) (slog.Value, error) {
	t, err := d.Token()
	if err != nil {
		return slog.Value{}, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			attrs, err := decodeObject(d)
			return slog.GroupValue(attrs...), err
		}
		return decodeArray(d)
	case string:
		return slog.StringValue(t), nil
	case bool:
		return slog.BoolValue(t), nil
	case json.Number:
		return number(t), nil
	}
	return slog.AnyValue(nil), nil
}

// decodeArray reads an array after its opening bracket. Objects in it are maps: a slog.Value inside
// a slice has no form that all handlers show.
func decodeArray(d *json.Decoder) (slog.Value, error) {
	items := []any{}
	for d.More() {
		var item any
		if err := d.Decode(&item); err != nil {
			return slog.Value{}, err
		}
		items = append(items, item)
	}
	_, err := d.Token()
	return slog.AnyValue(items), err
}

// number returns the smallest kind of number that keeps the value.
func number(n json.Number) slog.Value {
	if i, err := n.Int64(); err == nil {
		return slog.Int64Value(i)
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return slog.Uint64Value(u)
	}
	f, err := n.Float64()
	if err != nil {
		return slog.StringValue(n.String())
	}
	return slog.Float64Value(f)
}
