package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
)

var inJSON = request{reply: "_INBOX.x", format: wire.JSON, collect: modeGather}

func TestReply_carriesValueAndCoverage(t *testing.T) {
	m := inJSON.message(outcome{body: []value{{[]byte{1}}, {}, {[]byte{3}}},
		coverage: &coverage{asked: 3, answered: 3}})
	require.Equal(t, "[1,null,3]", string(m.Data))
	require.Equal(t, map[string][]string{
		"Content-Type": {"application/json"}, headerAsked: {"3"}, headerAnswered: {"3"}, headerFailed: {"0"},
		headerMissing: {"0"},
	}, map[string][]string(m.Header))
	inCBOR := inJSON
	inCBOR.format = wire.CBOR
	require.Equal(t, []byte{0x83, 1, 0xf6, 3},
		inCBOR.message(outcome{body: []value{{[]byte{1}}, {}, {[]byte{3}}}}).Data)
	require.Equal(t, []byte{0xf6}, inCBOR.message(outcome{}).Data, "a value is never empty")
}

func TestReply_partialReplyHasAOneLineReason(t *testing.T) {
	why := errors.New("rank 1:\nno " + strings.Repeat("ü", 2000))
	m := inJSON.message(outcome{body: int64(3), err: why, partial: true, coverage: &coverage{
		asked: 3, answered: 1, failed: 1, missing: 1, failedRegion: "gpu=1", missingRegion: "gpu=2",
	}})
	require.Equal(t, "3", string(m.Data))
	require.Empty(t, m.Header.Get(actor.HeaderError), "a value is no error")
	require.Equal(t, []string{"gpu=1", "gpu=2"},
		[]string{m.Header.Get(headerFailedRegion), m.Header.Get(headerMissingRegion)})
	require.LessOrEqual(t, len(m.Header.Get(headerPartial)), maxPartial)
	require.True(t, strings.HasPrefix(m.Header.Get(headerPartial), "rank 1: no üü"))
	require.True(t, strings.HasSuffix(m.Header.Get(headerPartial), "ü…"))
}

func TestReply_streamEndsWithAnEmptyMessage(t *testing.T) { // GW-2
	require.Empty(t, inJSON.message(outcome{empty: true, coverage: &coverage{}}).Data)
	require.NotEmpty(t, inJSON.message(outcome{empty: true, err: errors.New("")}).Data)
}

func TestReply_codesAreHTTPStatusCodes(t *testing.T) {
	for code, want := range map[actor.Code]string{
		actor.CodeNoActor: "404", actor.CodeInvalid: "400", actor.CodeTooMany: "429", actor.CodeTooLarge: "413",
		actor.CodeUnavailable: "503", actor.CodeDeadline: "504", actor.CodeProcDead: "410",
		actor.CodeHandler: "500",
	} {
		m := inJSON.message(outcome{err: &actor.Error{Code: code, Text: "no"}})
		require.Equal(t, want, m.Header.Get(actor.HeaderErrorCode))
	}
}

func TestReply_tooLargeNamesSizeLimitAndRemedy(t *testing.T) {
	err := inJSON.tooLarge(2000, 1000)
	require.ErrorContains(t, err, "2000 bytes, a message here at most 1000")
	require.ErrorContains(t, err, "Castnet-Collect: stream")
}

func TestReply_valueWithoutJSONFormIsAnError(t *testing.T) {
	raw, err := wire.Marshal(map[int]int{1: 2})
	require.NoError(t, err)
	m := inJSON.message(outcome{body: value{raw}})
	require.Contains(t, m.Header.Get(actor.HeaderError), "application/cbor")
	require.NotEmpty(t, m.Data)
}

func TestOutcomes_addUp(t *testing.T) {
	sum := outcomeCounts{base: shape.Of("host", 2).With("gpu", 2)}
	require.False(t, sum.count(0, nil))
	require.False(t, sum.count(1, &actor.Error{Code: actor.CodeHandler, Text: "no"}))
	require.False(t, sum.count(2, &actor.Error{Code: actor.CodeDeadline, Ran: true}),
		"a handler's own deadline is no silence")
	require.True(t, sum.count(3, &actor.Error{Code: actor.CodeDeadline}))
	c := sum.coverage()
	require.Equal(t, c.asked, c.answered+c.failed+c.missing, "GW-2")
	require.Equal(t, []any{4, 1, 2, 1, "host=1,gpu=1"},
		[]any{c.asked, c.answered, c.failed, c.missing, c.missingRegion})
	require.Equal(t, meshPoint{3, "host=1,gpu=1"}, meshPointOf(sum.base, 3))
	require.Equal(t, meshPoint{0, ""}, meshPointOf(shape.Extent{}, 0))
}
