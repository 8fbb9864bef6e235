package shape_test

import (
	"encoding/json"
	"fmt"

	"github.com/castnet-io/castnet/shape"
)

func ExampleExtent() {
	e := shape.Of("host", 2).With("gpu", 4)
	rank, err := e.Rank(1, 2)
	fmt.Println(e.NumRanks(), rank, err)
	p, err := e.Point(6)
	fmt.Println(p, err)
	fmt.Println(e.With("gpu", 8).Err())
	// Output:
	// 8 6 <nil>
	// host=1/2,gpu=2/4 <nil>
	// dimension "gpu": want a label that is not in host=2,gpu=4 yet
}

func ExampleSelect() {
	e := shape.Of("host", 2).With("gpu", 4)
	r, err := shape.Select(e, "host=1,gpu=0:4:2")
	fmt.Println(r, err)
	for view, base := range r.Ranks() {
		fmt.Println(view, "is", base)
	}
	// Output:
	// 4+host=1/4,gpu=2/2 <nil>
	// 0 is 4
	// 1 is 6
}

func ExampleParseSelection() {
	e := shape.Of("host", 3).With("gpu", 4)
	for _, text := range []string{"1", "(0|2),1:3", "*,::2 & host=1:", "gpu=3 | host=0", "rack=1"} {
		s, err := shape.ParseSelection(e, text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Print(s, " is")
		for rank := range s.Ranks() {
			fmt.Print(" ", rank)
		}
		fmt.Println()
	}
	// Output:
	// host=1,gpu=* is 4 5 6 7
	// host=0,gpu=1:3 | host=2,gpu=1:3 is 1 2 9 10
	// host=1:3,gpu=0:3:2 is 4 6 8 10
	// host=0,gpu=* | host=*,gpu=3 is 0 1 2 3 7 11
	// dimension "rack": want one of: host, gpu
}

func ExampleRegion_GroupBy() {
	groups, _ := shape.Of("host", 2).With("gpu", 4).Region().GroupBy("gpu")
	for r := range groups {
		fmt.Println(r)
	}
	// Output:
	// gpu=4/1
	// 4+gpu=4/1
}

func ExampleRegion_Remap() {
	all := shape.Of("host", 2).With("gpu", 4).Region()
	odd, _ := all.SliceStep("gpu", 1, 4, 2)
	last, _ := odd.Index("host", 1)
	ranks, _ := last.Remap(odd)
	for rank, other := range ranks {
		fmt.Println(rank, "is", other)
	}
	_, err := all.Remap(odd)
	fmt.Println(err)
	// Output:
	// 0 is 2
	// 1 is 3
	// base rank "0": want one of 1+host=2/4,gpu=2/2, where host=2/4,gpu=4/1 is to be a part of it
}

func ExampleValueMesh() {
	r := shape.Of("rank", 1000).Region()
	m, err := shape.MeshOfRuns(r, "running", shape.Run[string]{Begin: 10, End: 20, Value: "failed"})
	fmt.Println(m.At(12))
	text, _ := json.Marshal(m)
	fmt.Println(string(text))
	fmt.Println(err)
	// Output:
	// failed true
	// {"region":"rank=1000/1","values":["running","failed"],"runs":[{"end":10,"value":0},{"end":20,"value":1},{"end":1000,"value":0}]}
	// <nil>
}
