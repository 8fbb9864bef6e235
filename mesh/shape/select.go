package shape

import "strings"

// Select reads a slice of an extent as people write it: `host=0:2,gpu=3`. Along a dimension stands
// an index, a half-open range a:b with an optional step a:b:s (ends may be left out), or * for
// all. Dimensions that are not named are taken whole; so is everything by the empty text or *.
func Select(base Extent, text string) (Region, error) {
	r := base.Region()
	if r.err != nil || text == "" || text == "*" {
		return r, r.err
	}
	named := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		label, spec, ok := strings.Cut(part, "=")
		label, spec = strings.TrimSpace(label), strings.TrimSpace(spec)
		if !ok || spec == "" {
			return Region{}, &Error{What: "slice", Input: text, Want: "label=index, label=a:b, label=a:b:step or label=*, joined by commas"}
		}
		if named[label] {
			return Region{}, &Error{What: "slice", Input: text, Want: "each dimension once: " + label + " is there twice"}
		}
		named[label] = true
		var err error
		if r, err = r.selectDim(label, spec); err != nil {
			return Region{}, err
		}
	}
	return r, nil
}

// selectDim cuts one dimension as a person wrote it.
func (r Region) selectDim(label, spec string) (Region, error) {
	at, err := r.dim(label)
	if err != nil {
		return Region{}, err
	}
	if spec == "*" {
		return r, nil
	}
	bad := &Error{What: "slice of " + label, Input: spec, Want: "an index, a:b, a:b:step or *"}
	parts := strings.Split(spec, ":")
	if len(parts) == 1 {
		i, ok := parseInt(spec)
		if !ok {
			return Region{}, bad
		}
		return r.Index(label, i)
	}
	numbers := []int{0, r.dims[at].size, 1}
	if len(parts) > len(numbers) {
		return Region{}, bad
	}
	for k, p := range parts {
		if p == "" && k < 2 {
			continue
		}
		n, ok := parseInt(p)
		if !ok {
			return Region{}, bad
		}
		numbers[k] = n
	}
	return r.SliceStep(label, numbers[0], numbers[1], numbers[2])
}
