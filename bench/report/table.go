package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Text writes rows as a table for a terminal.
func Text(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tcastnet\tbase\tunit\tcastnet is\tbase is")
	for _, r := range rows {
		best := r.Best()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, Figure(r.Scores[0].Median), Figure(best.Median), r.Unit,
			r.Verdict(), best.Name)
	}
	return t.Flush()
}

// Markdown writes rows as a table for a page.
func Markdown(w io.Writer, rows []Row) error {
	_, err := fmt.Fprint(w, "| row | castnet | base | unit | castnet is | base is |\n|---|--:|--:|---|---|---|\n")
	for _, r := range rows {
		if err != nil {
			return err
		}
		best := r.Best()
		_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.Name, Figure(r.Scores[0].Median),
			Figure(best.Median), r.Unit, r.Verdict(), best.Name)
	}
	return err
}
