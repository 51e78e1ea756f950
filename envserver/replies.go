package envserver

import (
	"bytes"
	"cmp"
	"slices"
)

// perReply is what a kept reply counts beside its bytes.
const perReply = 32

// replies are the newest numbered frames that a session has sent, the greatest number
// last. They are copies in a ring that grows up to limit bytes: what it keeps costs a
// session in use no allocation.
type replies struct {
	limit int
	ring  []byte
	kept  []keptReply // from head on
	head  int
	next  uint64 // bytes ever written; those from the oldest kept reply on are in ring
}

type keptReply struct {
	id   uint64
	at   uint64 // as next was; modulo the ring's length it is the place
	size int
}

// keep copies a reply, in place of the oldest ones where there is no room. A reply
// larger than the limit is not kept.
func (r *replies) keep(id uint64, frame []byte) {
	size := len(frame)
	if size+perReply > r.limit {
		return
	}
	for r.head < len(r.kept) && r.used()+size+perReply > r.limit {
		r.head++
	}
	if r.head > len(r.kept)/2 {
		r.kept = slices.Delete(r.kept, 0, r.head)
		r.head = 0
	}
	r.grow(size)
	r.kept = append(r.kept, keptReply{id, r.next, size})
	r.write(frame)
}

// bytes is how much of the ring is in use.
func (r *replies) bytes() int {
	if r.head == len(r.kept) {
		return 0
	}
	return int(r.next - r.kept[r.head].at)
}

func (r *replies) used() int { return r.bytes() + perReply*(len(r.kept)-r.head) }

// grow makes room for size bytes more.
func (r *replies) grow(size int) {
	need := r.bytes() + size
	if need <= len(r.ring) {
		return
	}
	old := *r
	r.ring = make([]byte, min(r.limit, max(need, 2*len(r.ring), 512)))
	for _, k := range r.kept[r.head:] {
		r.next = k.at
		first, second := old.parts(k)
		r.write(first)
		r.write(second)
	}
}

func (r *replies) write(b []byte) {
	i := int(r.next % uint64(len(r.ring)))
	n := copy(r.ring[i:], b)
	copy(r.ring, b[n:])
	r.next += uint64(len(b))
}

// parts is a reply as it lies in the ring.
func (r *replies) parts(k keptReply) (first, second []byte) {
	i := int(k.at % uint64(len(r.ring)))
	if i+k.size <= len(r.ring) {
		return r.ring[i : i+k.size], nil
	}
	return r.ring[i:], r.ring[:i+k.size-len(r.ring)]
}

// find appends the reply of that number to buf, or reports that it is not kept.
func (r *replies) find(id uint64, buf *bytes.Buffer) bool {
	kept := r.kept[r.head:]
	i, ok := slices.BinarySearchFunc(kept, id, func(k keptReply, id uint64) int { return cmp.Compare(k.id, id) })
	if !ok {
		return false
	}
	first, second := r.parts(kept[i])
	buf.Write(first)
	buf.Write(second)
	return true
}
