package engine

import (
	"crypto/rand"
	"strings"
)

// maxName is the length of a DNS label: a container's name is one on its network, and
// a service's must be one.
const maxName = 63

// Name makes a name for something that runs image: readable, accepted by the engine,
// and different at each call, also in the same instant. It is chosen before anything
// is created, so that what a failed start left can be removed by it.
func Name(image string) string {
	base := image
	if i := strings.LastIndexByte(base, '/'); i >= 0 {
		base = base[i+1:]
	}
	if i := strings.IndexAny(base, ":@"); i >= 0 {
		base = base[:i]
	}
	var b strings.Builder
	for _, r := range strings.ToLower(base) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && s[len(s)-1] != '-' {
			b.WriteByte('-')
		}
	}
	suffix := "-" + strings.ToLower(rand.Text()[:16]) // 80 random bits
	const prefix = "openenv-"
	clean := b.String()
	clean = strings.Trim(clean[:min(len(clean), maxName-len(prefix)-len(suffix))], "-")
	if clean == "" {
		clean = "env"
	}
	return prefix + clean + suffix
}
