package casting

import (
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/shape"
)

// MaxReasons bounds the reasons in an error.
const MaxReasons = 10

// Reasons lists why ranks failed, each reason once with its region. Ten thousand equal failures are
// one line.
func Reasons(base shape.Extent, lost []Reply) string {
	by := map[string][]Reply{}
	var order []string
	for _, r := range lost {
		if by[r.Error] == nil {
			order = append(order, r.Error)
		}
		by[r.Error] = append(by[r.Error], r)
	}
	if len(order) == 1 {
		return fmt.Sprintf(" [%s] %s", describeRegion(base, lost), order[0])
	}
	var b strings.Builder
	for i, reason := range order {
		if i == MaxReasons {
			fmt.Fprintf(&b, "\n  and %d more reasons", len(order)-i)
			break
		}
		fmt.Fprintf(&b, "\n  [%s] %s", describeRegion(base, by[reason]), text.Shorten(reason, 200))
	}
	return b.String()
}
