package wire

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// SessionV1 is the WebSocket subprotocol in which every frame carries a number
// (docs/session-v1.md). The Python package does not know it.
const SessionV1 = "openenv.session.v1"

// TypeCancel is the frame of [SessionV1] that ends the request of its number. It has no
// reply.
const TypeCancel = "cancel"

// CancelRequest is that frame without its number.
var CancelRequest = []byte(`{"type":"cancel"}`)

// Error codes of [SessionV1].
const (
	CodeReplyLost = "REPLY_LOST"    // the request was applied, its reply is not kept any more
	CodeStale     = "STALE_REQUEST" // the request was not applied and will not be: a later one was
	CodeCancelled = "CANCELLED"     // the request was cancelled by its client, or its time was over
)

// InstanceHeader is the response header that names the server which answered: its value
// is another one for each server behind the same address.
const InstanceHeader = "Openenv-Instance"

// ErrNotNumbered is returned by [ParseNumbered] for a frame that does not begin with its
// number.
var ErrNotNumbered = errors.New(`frame does not begin with {"id":N, where N is an integer from 1 on`)

// ErrBadTime is returned by [ParseNumbered] for a frame whose time is not a number of
// milliseconds that a [time.Duration] can hold.
var ErrBadTime = errors.New(`"ms" is not an integer from 0 to ` + strconv.FormatInt(maxMillis, 10))

const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// NoTime stands for the time of a frame that has none.
const NoTime = -1

// AppendNumber appends what a numbered frame has in place of a plain frame's opening
// brace: the number and, unless ms is [NoTime], the time.
func AppendNumber(b []byte, id uint64, ms int64) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	if ms != NoTime {
		b = append(b, `,"ms":`...)
		b = strconv.AppendInt(b, ms, 10)
	}
	return append(b, ',')
}

// ParseNumbered splits a numbered frame into the plain frame, its number and its time,
// which is [NoTime] when there is none. It changes one byte of the frame: the plain one
// is the rest of it, in place. After an error the frame is unchanged. Whether the plain
// frame is one is not looked at. A frame is spelled as [AppendNumber] does it, without
// blanks.
func ParseNumbered(frame []byte) (plain []byte, id uint64, ms int64, err error) {
	digits, rest, ok := integer(frame, `{"id":`)
	if !ok {
		return nil, 0, 0, ErrNotNumbered
	}
	id, ok = number(digits, math.MaxUint64)
	if !ok || id == 0 {
		return nil, 0, 0, ErrNotNumbered
	}
	ms = NoTime
	if digits, after, timed := integer(rest, `,"ms":`); timed {
		n, ok := number(digits, uint64(maxMillis))
		if !ok {
			return nil, 0, 0, ErrBadTime
		}
		ms, rest = int64(n), after
	}
	if len(rest) == 0 || rest[0] != ',' {
		return nil, 0, 0, ErrNotNumbered
	}
	rest[0] = '{'
	return rest, id, ms, nil
}

// integer splits off the digits behind a prefix.
func integer(b []byte, prefix string) (digits, rest []byte, ok bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return nil, b, false
	}
	b = b[len(prefix):]
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return b[:n], b[n:], true
}

// number is the value of digits without a leading zero, up to limit.
func number(digits []byte, limit uint64) (n uint64, ok bool) {
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	for _, c := range digits {
		d := uint64(c - '0')
		if n > (limit-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}
