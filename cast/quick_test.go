package cast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// celsius is a number whose encoding is code of a user.
type celsius int

func (c celsius) MarshalCBOR() ([]byte, error) { return []byte{byte(c)}, nil }

func TestAggregation_foldsOnATurnOnlyWithoutUserCode(t *testing.T) {
	sum := untypedReducer{numbers: numbers[nameSum], fold: builtins[nameSum]}
	raw := func(size int) actor.Answer { return actor.EncodedAnswer(make([]byte, size)) }
	for name, c := range map[string]struct {
		by      untypedReducer
		answers []actor.Answer
		parts   []part
		quick   bool
	}{
		"numbers":                {sum, []actor.Answer{{Value: 1}, {Value: int64(2)}, {Value: 1.5}}, nil, true},
		"numbers, and a failure": {sum, []actor.Answer{{Value: 1}, {}}, nil, true},
		"encoded answers":        {packReducer, []actor.Answer{raw(100), raw(0)}, nil, true},
		"as many as are quick":   {packReducer, []actor.Answer{raw(maxQuickBytes / 2), raw(maxQuickBytes / 2)}, nil, true},
		"more":                   {packReducer, []actor.Answer{raw(maxQuickBytes / 2), raw(maxQuickBytes/2 + 1)}, nil, false},
		"a type of a user":       {sum, []actor.Answer{{Value: 1}, {Value: celsius(2)}}, nil, false},
		"the same, gathered":     {packReducer, []actor.Answer{{Value: celsius(2)}}, nil, false},
		"a reducer of a user":    {untypedReducer{fold: builtins[nameSum]}, []actor.Answer{{Value: 1}}, nil, false},
		"a reducer yet unknown":  {untypedReducer{}, []actor.Answer{{Value: 1}}, nil, false},
		"answers of other processes": {sum, []actor.Answer{{Value: 1}},
			[]part{{shape.Interval(1, 1), raw(1)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &aggregation{job: job{by: c.by}, state: newFolder(0, len(c.answers), len(c.answers)+len(c.parts), shape.Ranks{})}
			f.state.own = c.answers
			f.state.parts = c.parts
			require.Equal(t, c.quick, f.isQuick())
		})
	}
}
