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

func TestRateLimiter_limitsSendersThatChangeTheirNames_DEL10(t *testing.T) {
	var now int64
	ms := rateLimiters{now: func() int64 { return now }}
	names := 0
	flood := func(n int) (admitted int) {
		for range n {
			from, err := subjects.ParseSender("u-anon." + strconv.Itoa(names))
			require.NoError(t, err)
			names++
			if ms.allow(from) {
				admitted++
			}
			require.LessOrEqual(t, len(ms.all), maxRateLimiters)
		}
		return admitted
	}
	quiet, err := subjects.ParseSender("u-anon.quiet")
	require.NoError(t, err)
	require.True(t, ms.allow(quiet))
	require.Equal(t, foreignBurst-1, flood(100_000))
	require.True(t, ms.allow(quiet), "one that was there before")
	for range 10 {
		now += int64(100 * time.Millisecond)
		require.Equal(t, foreignRate/10, flood(10_000))
		require.True(t, ms.allow(quiet))
	}
	now += int64(rateLimiterIdle)
	next, err := subjects.ParseSender("u-anon.next")
	require.NoError(t, err)
	for range foreignBurst {
		require.True(t, ms.allow(next), "after the flood each has its own again")
	}
	require.False(t, ms.allow(next))
	require.Less(t, len(ms.all), maxRateLimiters)
}
