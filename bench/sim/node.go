package main

import "time"

// Node is one machine that serves sessions, in what was measured of one: see
// docs/performance.md, "Scaling experiment", and docs/scaling.md for how.
type Node struct {
	Cores       float64       // for the server alone
	Memory      int64         // bytes for sessions
	Descriptors int           // of the server's process
	SessionCPU  time.Duration // to open, reset and close a session
	StepCPU     time.Duration // of a step, without the environment's own work
	SessionSize int64         // bytes of an open session, without the environment's own
}

// reserved descriptors are for listening, logs and HTTP requests.
const reserved = 100

// busiest is how much of its cores a node may use before sessions wait for each other.
const busiest = 0.7

// Load is what a session does.
type Load struct {
	Steps      int           // of an episode
	Think      time.Duration // of the trainer, between two steps
	Wait       time.Duration // of the environment, without the processor
	EnvCPU     time.Duration // of a step, in the environment's own code
	EnvMemory  int64         // bytes of an environment
	EpisodeGap time.Duration // between connect and the first step
}

// Episode is how long a session is open.
func (l Load) Episode() time.Duration {
	return l.EpisodeGap + time.Duration(l.Steps)*(l.Think+l.Wait+l.EnvCPU)
}

// Carries is how many sessions a node carries, by each of its limits; the smallest
// counts.
func (n Node) Carries(l Load) (cpu, memory, descriptors int) {
	episode := l.Episode().Seconds()
	work := n.SessionCPU.Seconds() + float64(l.Steps)*(n.StepCPU+l.EnvCPU).Seconds()
	cpu = int(busiest * n.Cores / (work / episode))
	memory = int(n.Memory / (n.SessionSize + l.EnvMemory))
	return cpu, memory, n.Descriptors - reserved
}
