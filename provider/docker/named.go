package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/openenv-go/openenv/provider/internal/engine"
)

// named are the options that commands and configuration files can give by name.
var named = map[string]func(value string) (Option, error){
	"env": func(v string) (Option, error) {
		key, value, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=VALUE", v)
		}
		return WithEnv(map[string]string{key: value}), nil
	},
	"volume": func(v string) (Option, error) {
		vol, err := engine.SplitVolume(v)
		if err != nil {
			return nil, err
		}
		return WithVolume(vol.Source, vol.Target, strings.Join(vol.Modes, ",")), nil
	},
	"label": func(v string) (Option, error) {
		key, value, _ := strings.Cut(v, "=")
		return WithLabel(key, value), nil
	},
	"port": func(v string) (Option, error) {
		n, err := strconv.Atoi(v)
		return WithPort(n), err
	},
	"memory": func(v string) (Option, error) {
		n, err := units.RAMInBytes(v)
		return WithMemory(n), err
	},
	"cpus": func(v string) (Option, error) {
		n, err := strconv.ParseFloat(v, 64)
		return WithCPUs(n), err
	},
	"pull": func(v string) (Option, error) {
		when, err := engine.ParsePull(v)
		return WithPull(when), err
	},
	"grace": func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		return WithGrace(d), err
	},
	"ready-timeout": func(v string) (Option, error) {
		d, err := time.ParseDuration(v)
		return WithReadyTimeout(d), err
	},
	"network":         func(v string) (Option, error) { return WithNetwork(v), nil },
	"platform":        func(v string) (Option, error) { return WithPlatform(v), nil },
	"publish-address": func(v string) (Option, error) { return WithPublishAddress(v), nil },
	"user":            func(v string) (Option, error) { return WithUser(v), nil },
}

// Named is the option of that name, for commands and configuration files: cpus, env
// (NAME=VALUE), grace, label (NAME=VALUE), memory (512m), network, platform, port,
// publish-address, pull, ready-timeout, user and volume (SOURCE:TARGET[:MODE]). Any
// other name is an error before the engine is asked anything.
func Named(name, value string) Option {
	return optionFunc(func(s *settings) error {
		parse, ok := named[name]
		if !ok {
			return wrong("option "+name, fmt.Errorf("there is none of that name, only %s", strings.Join(slices.Sorted(maps.Keys(named)), ", ")))
		}
		o, err := parse(value)
		if err != nil {
			return wrong("option "+name, err)
		}
		return o.apply(s)
	})
}
