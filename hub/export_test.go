package hub

import "net/url"

// IsSpaceHost is isSpaceHost of an address.
func IsSpaceHost(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isSpaceHost(u)
}
