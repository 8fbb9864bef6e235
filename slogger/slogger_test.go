package slogger_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/slogger"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// records keeps what a handler gets.
type records struct {
	level slog.Leveler
	all   []slog.Record
}

func (r *records) Enabled(_ context.Context, l slog.Level) bool { return l >= r.level.Level() }
func (r *records) WithAttrs([]slog.Attr) slog.Handler           { return r }
func (r *records) WithGroup(string) slog.Handler                { return r }
func (r *records) Handle(_ context.Context, one slog.Record) error {
	r.all = append(r.all, one)
	return nil
}

func attrs(r slog.Record) (all []slog.Attr) {
	r.Attrs(func(a slog.Attr) bool { all = append(all, a); return true })
	return all
}

func TestNew_keepsLevelsMessagesAndAttributes_SLOG1(t *testing.T) {
	t.Parallel()
	for level, want := range map[zerolog.Level]slog.Level{
		zerolog.TraceLevel: slog.LevelDebug - 4, zerolog.DebugLevel: slog.LevelDebug,
		zerolog.InfoLevel: slog.LevelInfo, zerolog.WarnLevel: slog.LevelWarn, zerolog.ErrorLevel: slog.LevelError,
		zerolog.FatalLevel: slog.LevelError + 4, zerolog.PanicLevel: slog.LevelError + 8,
		zerolog.NoLevel: slog.LevelInfo,
	} {
		got := &records{level: slog.Level(-100)}
		log := slogger.New(slog.New(got))
		log = log.With().Str("proc", "p/0.0").Logger()
		log.WithLevel(level).Err(errors.New("broken")).Int("n", -3).Uint64("big", math.MaxUint64).
			Float64("share", 0.5).Bool("ok", true).Strs("names", []string{"a", "b"}).Any("none", nil).
			Dict("of", zerolog.Dict().Int("rank", 7)).Msg("it ends")
		require.Len(t, got.all, 1)
		require.Equal(t, want, got.all[0].Level)
		require.Equal(t, "it ends", got.all[0].Message)
		require.False(t, got.all[0].Time.IsZero())
		require.Equal(t, []slog.Attr{
			slog.String("proc", "p/0.0"), slog.String("error", "broken"), slog.Int("n", -3),
			slog.Uint64("big", math.MaxUint64), slog.Float64("share", 0.5), slog.Bool("ok", true),
			slog.Any("names", []any{"a", "b"}), slog.Any("none", nil), slog.Group("of", slog.Int("rank", 7)),
		}, attrs(got.all[0]))
	}
}

func TestNew_anyTextsSurvive_SLOG1(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 50, -1).Filter(utf8.ValidString)
		key := text.Filter(func(s string) bool { return s != "level" && s != "message" }).Draw(t, "key")
		value, message := text.Draw(t, "value"), text.Draw(t, "message")
		got := &records{level: slog.LevelDebug}
		log := slogger.New(slog.New(got))
		log.Info().Str(key, value).Msg(message)
		require.Len(t, got.all, 1)
		require.Equal(t, message, got.all[0].Message)
		all := attrs(got.all[0])
		require.Len(t, all, 1)
		require.Equal(t, key, all[0].Key)
		require.Equal(t, value, all[0].Value.String())
	})
}

func TestNew_handlerDecidesAtEachLine_SLOG2(t *testing.T) {
	t.Parallel()
	level := new(slog.LevelVar)
	got := &records{level: level}
	log := slogger.New(slog.New(got))
	limited := log.Sample(&zerolog.BurstSampler{Burst: 10, Period: time.Hour})
	require.False(t, log.Debug().Enabled(), "it is not encoded")
	log.Debug().Msg("no")
	limited.Debug().Msg("no")
	require.Empty(t, got.all)
	level.Set(slog.LevelDebug)
	log.Debug().Msg("yes")
	limited.Debug().Msg("yes")
	require.Len(t, got.all, 2)
}

func TestNew_lineOfAnotherFormIsItsMessage(t *testing.T) {
	t.Parallel()
	got := &records{level: slog.LevelDebug}
	log := slogger.New(slog.New(got))
	for _, line := range []string{"plain text", `["a"]`, `{"a":`, `{"a":[1`, ""} {
		_, err := log.Write([]byte(line + "\n"))
		require.NoError(t, err)
		require.Equal(t, line, got.all[len(got.all)-1].Message)
	}
}

func TestNew_actorThatPanicsIsLogged(t *testing.T) {
	t.Parallel()
	type broken struct{}
	kind := actor.NewType[*broken, actor.None]("broken")
	crash := actor.NewEndpoint[*broken, actor.None, actor.None]("crash")
	var out testkit.Transcript // the line of the panic comes before the call returns; others follow
	p, _ := testproc.Start(t, bustest.Server(t), testproc.Options{Options: actor.Options{
		Log: slogger.New(slog.New(slog.NewJSONHandler(&out, nil))), Coordinator: func(actor.Event) {},
	}}, kind.Define(func(*actor.Context, actor.None) (*broken, error) { return &broken{}, nil },
		crash.Handle(func(*broken, *actor.Context, actor.None) (actor.None, error) { panic("no") })))
	ref, err := actor.Spawn(t.Context(), p, kind, "one", actor.None{})
	require.NoError(t, err)
	_, err = crash.Call(testkit.Soon(t), ref, actor.None{})
	require.ErrorIs(t, err, actor.ErrPanic)
	var line struct{ Level, Msg, Actor, Endpoint string }
	require.NoError(t, json.NewDecoder(strings.NewReader(out.String())).Decode(&line))
	require.Equal(t, "ERROR", line.Level)
	require.Contains(t, line.Msg, "actor panicked: no")
	require.Equal(t, ref.ID().Name, line.Actor)
	require.Equal(t, "crash", line.Endpoint)
}
