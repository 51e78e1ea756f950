package wire

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
)

// AppendObservation appends an observation frame. Metadata is written inside the
// observation by its encoder and, when not empty, also beside reward, as the peer
// does (core/env_server/serialization.py). The observation must encode as an object.
func AppendObservation(buf *bytes.Buffer, observation any, reward *float64, done bool, metadata map[string]any) error {
	buf.WriteString(`{"type":"observation","data":`)
	if err := AppendResult(buf, observation, reward, done, metadata); err != nil {
		return err
	}
	buf.WriteByte('}')
	return nil
}

// AppendResult appends the data of an observation frame, which is also the body
// of an HTTP reset or step.
func AppendResult(buf *bytes.Buffer, observation any, reward *float64, done bool, metadata map[string]any) error {
	buf.WriteString(`{"observation":`)
	if err := appendObservation(buf, observation, metadata); err != nil {
		return err
	}
	buf.WriteString(`,"reward":`)
	if err := appendReward(buf, reward); err != nil {
		return err
	}
	buf.WriteString(`,"done":`)
	buf.WriteString(strconv.FormatBool(done))
	if len(metadata) > 0 {
		buf.WriteString(`,"metadata":`)
		if err := json.MarshalWrite(buf, metadata, options); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

// appendObservation writes the observation with its metadata as first member,
// unless the observation's own type already encodes one.
func appendObservation(buf *bytes.Buffer, observation any, metadata map[string]any) error {
	start := buf.Len()
	buf.WriteString(`{"metadata":`)
	if len(metadata) == 0 {
		buf.WriteString(`{}`)
	} else if err := json.MarshalWrite(buf, metadata, options); err != nil {
		return err
	}
	own := buf.Len()
	if err := appendObject(buf, observation); err != nil {
		return err
	}
	body := buf.Bytes()[own:]
	if HasMember(body, "metadata") {
		n := copy(buf.Bytes()[start:], body)
		buf.Truncate(start + n)
		return nil
	}
	body[0] = ','
	if rest := bytes.TrimLeft(body[1:], " \t\r\n"); len(rest) > 0 && rest[0] == '}' {
		body[0] = '}'
		buf.Truncate(own + 1)
	}
	return nil
}

// appendReward writes a reward the way Python writes a float: 1 is 1.0, and an
// exponent is used below 1e-4 and from 1e16 on.
func appendReward(buf *bytes.Buffer, reward *float64) error {
	if reward == nil {
		buf.WriteString("null")
		return nil
	}
	r, size := *reward, math.Abs(*reward)
	b := buf.AvailableBuffer()
	switch {
	case math.IsNaN(r) || math.IsInf(r, 0):
		return fmt.Errorf("reward is %v, which JSON cannot express", r)
	case r == math.Trunc(r) && size < 1e16:
		b = strconv.AppendFloat(b, r, 'f', 1, 64)
	case size >= 1e-4 && size < 1e16:
		b = strconv.AppendFloat(b, r, 'f', -1, 64)
	default:
		b = strconv.AppendFloat(b, r, 'e', -1, 64)
	}
	buf.Write(b)
	return nil
}

// AppendError appends an error frame. The details stand beside message and code.
func AppendError(buf *bytes.Buffer, e Error) error {
	data := make(map[string]any, len(e.Details)+2)
	maps.Copy(data, e.Details)
	data["message"], data["code"] = e.Message, e.Code
	buf.WriteString(`{"type":"error","data":`)
	if err := json.MarshalWrite(buf, data, options); err != nil {
		return err
	}
	buf.WriteByte('}')
	return nil
}
