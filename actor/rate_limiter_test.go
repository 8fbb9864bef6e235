package actor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateLimiter_limitsEachForeignSenderSeparately_DEL10(t *testing.T) {
	var now int64
	ms := rateLimiters{now: func() int64 { return now }}
	admitted := func(from string, n int) (yes int) {
		for range n {
			if ms.allow(from) {
				yes++
			}
		}
		return yes
	}
	require.Equal(t, foreignBurst, admitted("loud", 3*foreignBurst))
	require.Equal(t, 5, admitted("quiet", 5))
	now += int64(100 * time.Millisecond)
	require.Equal(t, foreignRate/10, admitted("loud", foreignBurst))
	now += int64(time.Hour)
	require.Equal(t, foreignBurst, admitted("loud", 2*foreignBurst), "what was not used is not saved up")
}

func TestRateLimiter_stateIsBounded(t *testing.T) {
	ms := rateLimiters{now: func() int64 { return 0 }}
	for n := range 3 * maxRateLimiters {
		ms.allow(string(rune(n)))
		require.LessOrEqual(t, len(ms.all), maxRateLimiters)
	}
}
