module github.com/openenv-go/openenv

go 1.26.8

require (
	github.com/coder/websocket v1.8.15
	github.com/go-json-experiment/json v1.27.2
	golang.org/x/net v0.62.0
)

require golang.org/x/text v0.43.0 // indirect
