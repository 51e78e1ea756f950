package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// DefaultPort is where an environment's container serves if its image does not say.
const DefaultPort = 8000

// Pull says when an image is fetched from its registry.
type Pull int

// The policies. Missing is the default.
const (
	Missing Pull = iota
	Always
	Never
)

// ParsePull reads a policy as the docker command spells it.
func ParsePull(s string) (Pull, error) {
	switch s {
	case "missing", "":
		return Missing, nil
	case "always":
		return Always, nil
	case "never":
		return Never, nil
	}
	return 0, fmt.Errorf("pull policy %q is none of missing, always, never", s)
}

// Progress is a line of a pull's progress.
type Progress struct {
	Layer, Status  string
	Current, Total int64
}

// Image is what to run and how to get it.
type Image struct {
	Ref      string
	Platform *ocispec.Platform
	Pull     Pull
	Login    *Login // nil: what the docker configuration has
	Progress func(Progress)
}

// CheckRef refuses a reference that no registry could have.
func CheckRef(ref string) error {
	if ref == "" {
		return errors.New("image is empty")
	}
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return fmt.Errorf("image %q: %w", ref, err)
	}
	return nil
}

// ParsePlatform reads os/architecture[/variant].
func ParsePlatform(s string) (*ocispec.Platform, error) {
	part := strings.Split(s, "/")
	if len(part) < 2 || len(part) > 3 || part[0] == "" || part[1] == "" {
		return nil, fmt.Errorf("platform %q is not os/architecture[/variant]", s)
	}
	p := &ocispec.Platform{OS: part[0], Architecture: part[1]}
	if len(part) == 3 {
		p.Variant = part[2]
	}
	return p, nil
}

// Ensure makes the image present, as its policy says, and returns its configuration.
func (e *Engine) Ensure(ctx context.Context, img Image) (*dockerspec.DockerOCIImageConfig, error) {
	if img.Pull == Always {
		if err := e.pull(ctx, img); err != nil {
			return nil, err
		}
	}
	found, err := e.ImageInspect(ctx, img.Ref)
	if IsNotFound(err) && img.Pull == Missing {
		if err := e.pull(ctx, img); err != nil {
			return nil, err
		}
		found, err = e.ImageInspect(ctx, img.Ref)
	}
	if IsNotFound(err) {
		return nil, fmt.Errorf("image %s is not there, and the pull policy is never: %w", img.Ref, err)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect image %s: %w", img.Ref, e.Explain(err))
	}
	if found.Config == nil {
		return new(dockerspec.DockerOCIImageConfig), nil
	}
	return found.Config, nil
}

func (e *Engine) pull(ctx context.Context, img Image) error {
	auth, authErr := img.Auth(ctx)
	err := e.pullAs(ctx, img, auth)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pull %s: %w", img.Ref, context.Cause(ctx))
	}
	// Without its credentials a private image does not exist: the reason is theirs.
	return errors.Join(fmt.Errorf("pull %s: %w", img.Ref, e.Explain(err)), authErr)
}

func (e *Engine) pullAs(ctx context.Context, img Image, auth string) error {
	opts := client.ImagePullOptions{RegistryAuth: auth}
	if img.Platform != nil {
		opts.Platforms = []ocispec.Platform{*img.Platform}
	}
	stream, err := e.ImagePull(ctx, img.Ref, opts)
	if err != nil {
		return err
	}
	for m, err := range stream.JSONMessages(ctx) {
		if err != nil {
			return err
		}
		if m.Error != nil {
			return m.Error
		}
		if img.Progress != nil {
			p := Progress{Layer: m.ID, Status: m.Status}
			if m.Progress != nil {
				p.Current, p.Total = m.Progress.Current, m.Progress.Total
			}
			img.Progress(p)
		}
	}
	return nil
}

// Port is where a container of an image serves: the port asked for, else the single
// one that the image exposes, else the default. Several leave the choice to the user.
func Port(ref string, cfg *dockerspec.DockerOCIImageConfig, asked uint16) (network.Port, error) {
	number := uint16(DefaultPort)
	switch exposed := exposedPorts(cfg); {
	case asked != 0:
		number = asked
	case len(exposed) == 1:
		number = exposed[0].Num()
	case len(exposed) > 1:
		var names []string
		for _, p := range exposed {
			names = append(names, p.Port())
		}
		return network.Port{}, fmt.Errorf("image %s exposes the ports %s: choose one with WithPort", ref, strings.Join(names, ", "))
	}
	port, _ := network.PortFrom(number, network.TCP) // any number is a port
	return port, nil
}
