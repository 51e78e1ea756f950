package main

// queue holds events and gives back the earliest: a binary heap. Of the standard
// library's, which boxes what it holds, most of a simulation's time would go.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if h[parent].at <= h[i].at {
			break
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
	*q = h
}

// pop removes the earliest event; there must be one.
func (q *queue) pop() event {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if right := child + 1; right < last && h[right].at < h[child].at {
			child = right
		}
		if h[i].at <= h[child].at {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	*q = h
	return first
}
