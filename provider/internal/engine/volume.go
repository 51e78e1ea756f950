package engine

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	volumeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]+$`)
	windowsAbs = regexp.MustCompile(`^[a-zA-Z]:[\\/]`)
)

// Volume is a directory of the host or a named volume, seen in a container.
type Volume struct {
	Source, Target string
	Modes          []string
}

// ParseVolume checks what the engine would misread or silently make up: a source that
// is empty or relative, a target that is not absolute, a mode that does not exist.
func ParseVolume(source, target, mode string) (Volume, error) {
	v := Volume{Source: source, Target: target}
	switch {
	case source == "":
		return v, errors.New("volume: source is empty")
	case !v.Bind() && !volumeName.MatchString(source):
		return v, fmt.Errorf("volume: source %q is neither an absolute path nor the name of a volume", source)
	case strings.HasPrefix(source, "/") && strings.Contains(source, ":"), strings.Contains(target, ":"):
		return v, fmt.Errorf("volume: a colon in %q", source+":"+target)
	case !path.IsAbs(target) || path.Clean(target) == "/":
		return v, fmt.Errorf("volume: target %q is not an absolute path below /", target)
	}
	if mode == "" {
		return v, nil
	}
	for m := range strings.SplitSeq(mode, ",") {
		if !slices.Contains([]string{"ro", "rw", "z", "Z"}, m) {
			return v, fmt.Errorf("volume: mode %q is none of ro, rw, z, Z", m)
		}
		v.Modes = append(v.Modes, m)
	}
	if slices.Contains(v.Modes, "ro") && slices.Contains(v.Modes, "rw") {
		return v, fmt.Errorf("volume: mode %q contradicts itself", mode)
	}
	return v, nil
}

// SplitVolume reads SOURCE:TARGET[:MODE].
func SplitVolume(s string) (Volume, error) {
	drive := ""
	if windowsAbs.MatchString(s) {
		drive, s = s[:2], s[2:]
	}
	part := strings.Split(s, ":")
	if len(part) < 2 || len(part) > 3 {
		return Volume{}, fmt.Errorf("volume %q is not SOURCE:TARGET[:MODE]", drive+s)
	}
	return ParseVolume(drive+part[0], part[1], strings.Join(part[2:], ""))
}

// Bind reports whether the source is a directory of the host.
func (v Volume) Bind() bool {
	return strings.HasPrefix(v.Source, "/") || windowsAbs.MatchString(v.Source)
}

// ReadOnly reports whether the container may not write.
func (v Volume) ReadOnly() bool { return slices.Contains(v.Modes, "ro") }

func (v Volume) String() string {
	s := v.Source + ":" + v.Target
	if len(v.Modes) > 0 {
		s += ":" + strings.Join(v.Modes, ",")
	}
	return s
}

// Env is an environment as the engine takes it, in order.
func Env(variables map[string]string) []string {
	var env []string
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, key+"="+variables[key])
	}
	return env
}
