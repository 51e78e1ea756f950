//go:build !linux

package process

import "context"

// reserve finds a free port, which nothing holds here.
func reserve(ctx context.Context, wanted int) (*port, error) {
	number, err := probe(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return &port{number: number}, nil
}
