package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measureStart measures how soon "oenv serve" answers /health, from the exec on, and
// how large the command is.
func (b *bench) measureStart(ctx context.Context) error {
	var ms []float64
	for range max(9, b.cfg.rounds) {
		d, err := b.startOnce(ctx)
		if err != nil {
			return err
		}
		ms = append(ms, d.Seconds()*1e3)
	}
	size, err := strippedSize(ctx)
	if err != nil {
		return err
	}
	b.report.Ratios = append(b.report.Ratios,
		atMost("`oenv serve echo` answers /health after exec", spreadOf(ms), 100, "ms"),
		atMost("`oenv`, stripped", one(size), 40, "MB"))
	return nil
}

func (b *bench) startOnce(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	p, err := startOenv(ctx, b.cfg.oenv, "echo", 1)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/health", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("/health answered %s", resp.Status)
	}
	return took, nil
}

// strippedSize is the size of the command as a release has it, in millions of bytes.
func strippedSize(ctx context.Context) (mb float64, err error) {
	dir, err := os.MkdirTemp("", "oenv")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := filepath.Join(dir, "oenv")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", name, "./cmd/oenv")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}
