// Package report is the results of a run of the benchmarks as people read them: a table at the end
// of the run, and the figures of docs/performance.md.
//
//	rows, err := report.Parse(notes)             // the stderr of a run
//	err = report.Text(os.Stderr, rows)           // the table at the end of the run
//	err = report.Markdown(page, rows)            // the table of the page
//	plot, err := report.Plot(family, rows)       // an SVG of one family
//
// # Contract
//
//   - Parse skips all lines but those of contenders. It reads at most [MaxRows] rows.
//   - In rows per second more is better. In all others less is.
//   - A Plot needs no font, script or other file, and reads on light and dark pages.
package report
