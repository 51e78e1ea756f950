package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

type initOptions struct {
	streams *Streams
	name    string
	module  string
	replace string
	force   bool
}

func newInit(s *Streams) *cobra.Command {
	o := &initOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Start a new environment in Go",
		Long: `init writes a small environment that works into DIR, to be changed into another: a Go
module with the environment, its server and its tests, a Dockerfile for an image that
holds the server and nothing else, an openenv.yaml, and a README with the commands.

DIR is made when it does not exist. One that holds more than a .git folder is refused;
with --force the files of init replace those of the same name, and others stay.

The new module requires the version of ` + modulePath + ` that
this oenv was built from. A development build has none; --replace names a checkout to
use instead.`,
		Example: `  oenv init maze
  oenv init . --name maze --module example.com/you/maze
  oenv init maze --replace ../openenv`,
		Args: oneDir,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return untilInterrupt(cmd.Context(), func(context.Context) error { return o.run(args[0]) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the environment (default: that of DIR)")
	f.StringVar(&o.module, "module", "", "module `path` (default: the name)")
	f.StringVar(&o.replace, "replace", "", "use the library from this `checkout`, by a replace directive in go.mod")
	f.BoolVar(&o.force, "force", false, "write into a folder that is not empty")
	return cmd
}

func oneDir(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return usagef("init: the folder to write to is missing, such as maze")
	case 1:
		return nil
	}
	return usagef("init: one folder is wanted, not %d arguments", len(args))
}

func (o *initOptions) run(dir string) error {
	p, err := o.project(dir)
	if err != nil {
		return err
	}
	files, err := p.render()
	if err != nil {
		return err
	}
	if err := o.write(dir, files); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	var written strings.Builder
	for _, f := range files {
		fmt.Fprintln(&written, filepath.Join(dir, filepath.FromSlash(f.name)))
	}
	if _, err := o.streams.Out.Write([]byte(written.String())); err != nil {
		return err
	}
	o.streams.note(p.next(dir))
	return nil
}

// project decides what the templates are filled with.
func (o *initOptions) project(dir string) (*project, error) {
	p := &project{Name: o.name, Module: o.module, Library: modulePath, Go: goVersion}
	if p.Name == "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("init: %w", err)
		}
		p.Name = filepath.Base(abs)
	}
	if err := checkName(p.Name); err != nil {
		if o.name == "" {
			return nil, usagef("init: %w; --name gives another than that of the folder", err)
		}
		return nil, usagef("--name: %w", err)
	}
	p.Package = packageName(p.Name)
	if p.Module == "" {
		p.Module = p.Name
	}
	if err := checkModule(p.Module); err != nil {
		if o.module == "" {
			return nil, usagef("init: %w; --module gives another than the name", err)
		}
		return nil, usagef("--module: %w", err)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = released(info)
	}
	if o.replace != "" {
		checkout, err := findCheckout(o.replace)
		if err != nil {
			return nil, usagef("--replace: %w", err)
		}
		p.Replace = quotePath(checkout)
		if p.Version == "" {
			p.Version = "v0.0.0" // go.mod wants one, and the replacement is used whatever it is
		}
	}
	return p, nil
}

// released is the version that others can get of the module the program was built
// from, or empty: "(devel)" is none, and a modified checkout has its files only here.
func released(info *debug.BuildInfo) string {
	v := info.Main.Version
	if info.Main.Path != modulePath || !strings.HasPrefix(v, "v") || strings.HasSuffix(v, "+dirty") {
		return ""
	}
	return v
}

// findCheckout returns the absolute path of a folder that holds this module: a relative
// one would lead elsewhere once the new folder is moved.
func findCheckout(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(abs, "go.mod"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "module" && strings.Trim(words[1], `"`) == modulePath {
			return abs, nil
		}
	}
	return "", fmt.Errorf("%s is not a checkout of %s", dir, modulePath)
}

// write puts the files below dir. A link that leads out of it is not followed.
func (o *initOptions) write(dir string, files []file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // G301: source code, as public as the user's umask makes it
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is lost with a folder's descriptor
	if !o.force {
		if err := checkEmpty(root.FS(), dir); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(f.name, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checkEmpty refuses a folder in which there is something. A repository that was just
// made is empty.
func checkEmpty(fsys fs.FS, dir string) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != ".git" {
			return fmt.Errorf("%s is not empty, it has %s; --force writes into it all the same", dir, oneLine(e.Name()))
		}
	}
	return nil
}
