//go:build race

package main

// poolsForget: the race detector makes pools drop what they hold at random.
const poolsForget = true
