// Package plot draws small charts as SVG documents: lines over numbers, and bars beside
// names. It knows nothing of what it draws.
//
//	err := plot.Lines{Title: "total", X: plot.Axis{Label: "sessions", Log: true},
//		Series: []plot.Series{{Name: "P99", Points: points}}}.Write(w)
//
// The documents are text without scripts or fonts of their own, and the same input is
// the same bytes, so that they can be kept under version control.
package plot
