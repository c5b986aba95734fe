package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestHealth(t *testing.T) {
	h := &Health{}
	status := func() string { return h.respond(t.Context(), "/healthz").Status }
	assert.Equal(t, "200 OK", status())
	h.working(true)
	assert.Equal(t, "200 OK", status(), "a frame may take its time")
	h.busy.Store(time.Now().Add(-2 * healthStuck).UnixNano())
	assert.Equal(t, "503 Service Unavailable", status())
	h.working(false)
	assert.Equal(t, "200 OK", status())
}
