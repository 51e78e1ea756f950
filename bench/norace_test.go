//go:build !race

package main

const poolsForget = false
