package record

// HTTP is an HTTP exchange of a recording.
type HTTP struct {
	Method      string
	Path        string // with its query
	Request     []byte // the body
	Status      int
	ContentType string
	Body        []byte
}
