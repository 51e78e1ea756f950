package envserver

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/openenv-go/openenv/envserver"

// startSpan begins a span when traces were asked for. It costs nothing otherwise. The
// function returned ends it with the error of what it spans.
func (s *Server) startSpan(ctx context.Context, name, session string) (context.Context, func(error)) {
	if s.set.tracer == nil {
		return ctx, noSpan
	}
	ctx, span := s.set.tracer.Tracer(tracerName).Start(ctx, "openenv."+name, //nolint:spancheck // the caller ends it
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("openenv.session", session), attribute.String("openenv.environment", s.kind.name)))
	return ctx, func(err error) { //nolint:spancheck // it ends the span
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

func noSpan(error) {}
