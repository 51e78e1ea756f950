package main

import "slices"

// spread is a median with its quartiles.
type spread struct {
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
}

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 { return v[int(q*float64(len(v)-1)+0.5)] }
	return spread{Q1: at(0.25), Median: at(0.5), Q3: at(0.75)}
}

// ratios divides round by round: what disturbed one round disturbed both.
func ratios(of, to []float64) []float64 {
	out := make([]float64, min(len(of), len(to)))
	for i := range out {
		out[i] = of[i] / to[i]
	}
	return out
}
