package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strings"
	"time"
)

// Settings are what any kind of container can be told. What cannot be right is
// refused by the method that is given it.
type Settings struct {
	Image      Image
	Host       string // of the engine
	Env        map[string]string
	Volumes    []Volume
	Port       uint16 // 0: what the image exposes
	Memory     int64
	NanoCPUs   int64
	Labels     map[string]string
	User       string
	Command    []string
	Entrypoint []string
	Ready      time.Duration
	Grace      time.Duration
	Logger     *slog.Logger
}

// Defaults of the settings.
const (
	DefaultReadyTimeout = time.Minute
	DefaultGrace        = 10 * time.Second
)

// Defaults are the settings of somebody who has none.
func Defaults() Settings {
	return Settings{
		Env: map[string]string{}, Labels: map[string]string{},
		Ready: DefaultReadyTimeout, Grace: DefaultGrace, Logger: slog.New(slog.DiscardHandler),
	}
}

// AddEnv adds variables.
func (s *Settings) AddEnv(variables map[string]string) error {
	for key, value := range variables {
		if key == "" || strings.ContainsAny(key, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("%q cannot be a variable", key)
		}
	}
	maps.Copy(s.Env, variables)
	return nil
}

// AddVolume adds a volume, see ParseVolume.
func (s *Settings) AddVolume(source, target, mode string) error {
	v, err := ParseVolume(source, target, mode)
	if err == nil {
		s.Volumes = append(s.Volumes, v)
	}
	return err
}

// SetPort sets the port inside the container.
func (s *Settings) SetPort(port int) error {
	if port < 1 || port > math.MaxUint16 {
		return fmt.Errorf("%d is no port", port)
	}
	s.Port = uint16(port)
	return nil
}

// SetMemory sets the limit in bytes.
func (s *Settings) SetMemory(bytes int64) error {
	if bytes < 1 {
		return fmt.Errorf("%d bytes are no limit", bytes)
	}
	s.Memory = bytes
	return nil
}

// SetCPUs sets the limit in processors.
func (s *Settings) SetCPUs(n float64) error {
	if n >= 0.001 && n <= 1e6 {
		s.NanoCPUs = int64(n * 1e9)
		return nil
	}
	return fmt.Errorf("%v is no limit", n)
}

// AddLabel adds a label of the user's.
func (s *Settings) AddLabel(key, value string) error {
	if err := CheckLabel(key); err != nil {
		return err
	}
	s.Labels[key] = value
	return nil
}

// SetPull sets the pull policy.
func (s *Settings) SetPull(when Pull) error {
	if when < Missing || when > Never {
		return errors.New("no such policy")
	}
	s.Image.Pull = when
	return nil
}

// SetReady limits how long the environment may take to become ready.
func (s *Settings) SetReady(limit time.Duration) error { return setDuration(&s.Ready, limit) }

// SetGrace is the time between TERM and KILL.
func (s *Settings) SetGrace(grace time.Duration) error { return setDuration(&s.Grace, grace) }

func setDuration(field *time.Duration, d time.Duration) error {
	if d < 0 {
		return errors.New("negative duration")
	}
	*field = d
	return nil
}

// SetLogger sets where the engine's warnings go.
func (s *Settings) SetLogger(l *slog.Logger) error {
	if l == nil {
		return errors.New("nil logger")
	}
	s.Logger = l
	return nil
}
