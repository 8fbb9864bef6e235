package actor

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestRateLimiter_limitsEachForeignSenderSeparately_DEL10(t *testing.T) {
	var now int64
	ms := rateLimiters{now: func() int64 { return now }}
	sender := func(text string) subjects.Sender {
		s, err := subjects.ParseSender(text)
		require.NoError(t, err)
		return s
	}
	loud, quiet := sender("u-anon.loud"), sender("u-anon.quiet")
	admitted := func(from subjects.Sender, n int) (yes int) {
		for range n {
			if ms.allow(from) {
				yes++
			}
		}
		return yes
	}
	require.Equal(t, foreignBurst, admitted(loud, 3*foreignBurst))
	require.Equal(t, 5, admitted(quiet, 5))
	now += int64(100 * time.Millisecond)
	require.Equal(t, foreignRate/10, admitted(loud, foreignBurst))
	now += int64(time.Hour)
	require.Equal(t, foreignBurst, admitted(loud, 2*foreignBurst), "unused rate is not saved")
}

func TestRateLimiter_stateIsBounded(t *testing.T) {
	ms := rateLimiters{now: func() int64 { return 0 }}
	for n := range 3 * maxRateLimiters {
		from, err := subjects.ParseSender("u-anon." + strconv.Itoa(n))
		require.NoError(t, err)
		ms.allow(from)
		require.LessOrEqual(t, len(ms.all), maxRateLimiters)
	}
}
