package clientsuite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/openenv-go/openenv"
)

var futureCases = []testCase{
	{name: "started futures keep their order", run: startedOrder},
	{name: "a future runs once", run: runsOnce},
	{name: "an action is encoded when it is described", run: encodedEarly},
	{name: "AwaitAll names the future that failed", run: awaitAllErrors},
	{name: "futures in the order in which they complete", needs: fakeTime, run: completionOrder},
	{name: "pipelined results come in order", run: pipelined},
	{name: "Close settles futures", run: closeSettles},
}

func startedOrder(p *play) {
	var rec recorder
	c := p.client(rec.option())
	fs := []*openenv.Future[openenv.StepResult[Observation]]{c.Async().Reset()}
	for i := range 50 {
		fs = append(fs, c.Async().Step(Action{strconv.Itoa(i)}))
	}
	all, err := openenv.AwaitAll(p.Context(), fs...)
	if err != nil {
		p.Fatalf("AwaitAll: %v", err)
	}
	p.wantReady(all[0])
	p.wantOrder(rec.all()[1:], 50)
	for i, res := range all[1:] {
		if call, next := rec.all()[i], rec.all()[i+1]; next.sent.Before(call.received) {
			p.Errorf("request %d was sent before reply %d had come", i+1, i)
		}
		if res.Observation.Echoed != strconv.Itoa(i) {
			p.Errorf("future %d got the reply %q", i, res.Observation.Echoed)
		}
	}
	p.steps(c, 50)
}

// wantOrder wants steps with the messages 0 to n-1, each with its own reply.
func (p *play) wantOrder(calls []recorded, n int) {
	p.Helper()
	var sent []string
	for _, call := range calls {
		message, _ := call.request.Data["message"].(string)
		sent = append(sent, message)
	}
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	if !slices.Equal(sent, want) {
		p.Errorf("sent in the order %v", sent)
	}
}

func runsOnce(p *play) {
	c := p.client()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	f := c.Async().Step(Action{"once"})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if i%2 == 0 {
				f.Start(p.Context())
			}
			if res, err := f.Await(p.Context()); err != nil || res.Observation.Echoed != "once" {
				p.Errorf("Await = %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	p.steps(c, 1)
}

func encodedEarly(p *play) {
	c := p.raw()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	action := openenv.Object{"message": "before"}
	f := c.Async().Step(action)
	action["message"] = "after"
	res, err := f.Await(p.Context())
	if err != nil || res.Observation["echoed"] != "before" {
		p.Errorf("Await = %+v, %v, want the action as it was described", res, err)
	}
	_, err = c.Async().Step(openenv.Object{"message": func() {}}).Await(p.Context())
	if err == nil {
		p.Error("an action that cannot be encoded was sent")
	}
}

func awaitAllErrors(p *play) {
	c := p.client()
	a := c.Async()
	all, err := openenv.AwaitAll(p.Context(), a.Reset(), a.Step(Action{"boom"}), a.Step(Action{"hi"}))
	var fe *openenv.FutureError
	if !errors.As(err, &fe) || fe.Index != 1 {
		p.Fatalf("AwaitAll: %v, want the error of future 1", err)
	}
	p.failed("AwaitAll", err)
	if len(all) != 3 || all[2].Observation.Echoed != "hi" {
		p.Errorf("AwaitAll = %+v: a failure must not cancel its siblings", all)
	}
	p.steps(c, 2)
}

func completionOrder(p *play) {
	parent := p.client()
	var fs []*openenv.Future[openenv.StepResult[Observation]]
	for i := range 4 {
		child, err := parent.NewSession(p.Context())
		if err != nil {
			p.Fatalf("NewSession: %v", err)
		}
		fs = append(fs, child.Async().Step(Action{fmt.Sprintf("sleep:%d", 4-i)}))
	}
	start := time.Now()
	var order []int
	for i, f := range openenv.AsCompleted(p.Context(), fs...) {
		if _, err := f.Result(); err != nil {
			p.Errorf("future %d: %v", i, err)
		}
		order = append(order, i)
	}
	if !slices.Equal(order, []int{3, 2, 1, 0}) {
		p.Errorf("completed in the order %v", order)
	}
	if took := time.Since(start); took != 4*time.Second {
		p.Errorf("took %v: the sessions did not run side by side", took)
	}
}

// An error frame does not stop the frames behind it: what was sent is applied.
func pipelined(p *play) {
	const n, bad, depth = 40, 7, 8
	var rec recorder
	c := p.client(openenv.WithPipelining(depth), rec.option())
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	var (
		fs       []*openenv.Future[openenv.StepResult[Observation]]
		messages []string
	)
	for i := range n {
		message := strconv.Itoa(i)
		switch i {
		case 0:
			message = "sleep:0.2" // time for others to be sent behind it
		case bad:
			message = "boom"
		}
		messages = append(messages, message)
		fs = append(fs, c.Async().Step(Action{message}).Start(p.Context()))
	}
	state := c.Async().State().Start(p.Context())
	for i, f := range fs {
		res, err := f.Await(p.Context())
		if i == bad {
			p.failed("future", err)
			continue
		}
		if err != nil || res.Observation.Echoed != messages[i] {
			p.Errorf("future %d = %+v, %v", i, res, err)
		}
	}
	steps := rec.all()[1:]
	first := slices.IndexFunc(steps, func(call recorded) bool { return call.request.Data["message"] == messages[0] })
	early := 0
	for _, call := range steps {
		if call.sent.Before(steps[first].received) {
			early++
		}
	}
	if early != depth {
		p.Errorf("%d frames were sent before the first reply, want %d", early, depth)
	}
	if got, err := state.Await(p.Context()); err != nil || got.StepCount != n {
		p.Errorf("State = %+v, %v, want %d steps", got, err, n)
	}
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Errorf("Await(Reset): %v", err)
	}
}

func closeSettles(p *play) {
	c := p.client()
	if _, err := c.Async().Reset().Await(p.Context()); err != nil {
		p.Fatalf("Await(Reset): %v", err)
	}
	running := c.Async().Step(Action{"sleep:1"}).Start(p.Context())
	queued := c.Async().Step(Action{"queued"}).Start(p.Context())
	untouched := c.Async().Step(Action{"untouched"})
	if err := c.Close(); err != nil {
		p.Errorf("Close: %v", err)
	}
	for name, f := range map[string]*openenv.Future[openenv.StepResult[Observation]]{
		"running": running, "queued": queued, "untouched": untouched,
	} {
		if _, err := f.Await(p.Context()); !errors.Is(err, openenv.ErrClosed) {
			p.Errorf("%s future after Close: %v", name, err)
		}
	}
}
