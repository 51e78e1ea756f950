package cli

import (
	"fmt"
	"runtime/debug"
)

// version is what the build knows of itself: the module's version, the commit when
// it was built in a checkout, and the version of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describeBuild(info)
}

func describeBuild(info *debug.BuildInfo) string {
	text := info.Main.Version
	if text == "" {
		text = "(devel)"
	}
	var commit, modified string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = ", modified"
		}
	}
	if commit != "" {
		return fmt.Sprintf("%s (commit %.12s%s, %s)", text, commit, modified, info.GoVersion)
	}
	return fmt.Sprintf("%s (%s)", text, info.GoVersion)
}
