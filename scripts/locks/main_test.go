package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithRecording_replacesMutexesAlone(t *testing.T) {
	const path = `"github.com/castnet-io/castnet/internal/mutexes"`
	for source, want := range map[string]string{
		"import (\n\t\"sync\"\n)\nvar m sync.Mutex": "import (\n\t" + path + "\n)\nvar m mutexes.Mutex",
		"import (\n\t\"sync\"\n)\nvar m sync.RWMutex; var o sync.Once": "import (\n\t\"sync\"\n\t" + path +
			"\n)\nvar m mutexes.RWMutex; var o sync.Once",
		"import \"sync\"\nvar m sync.Mutex": "import " + path + "\nvar m mutexes.Mutex",
	} {
		require.Equal(t, want, withRecording(source))
	}
}
