package pmix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func monitorBody(what info, infos ...info) func(*encoder) {
	return func(e *encoder) {
		e.group(1)
		e.info(what)
		e.oneStatus(alertHeartbeat)
		e.infoList(infos)
	}
}

// number is a numeric attribute of a monitor.
func number(key string, n int) info { return attr(key, uint32(n)) }

// heartbeat sends a heartbeat. A reply to a later request shows that the server received it.
func (c *client) heartbeat() {
	c.t.Helper()
	_, err := c.conn.Write(appendFrame(nil, tagHeartbeat))
	require.NoError(c.t, err)
	c.call(commandQuery, func(e *encoder) { e.oneSize(0) })
}

// failed returns the failures of ranks so far.
func (r *recorder) failed() []string {
	return slices.DeleteFunc(r.all(), func(received string) bool { return !strings.HasPrefix(received, "failed") })
}

func TestHeartbeats(t *testing.T) {
	watch := attr(keyHeartbeat, true)
	named := attr(keyMonitorID, "m")
	failed := []string{"failed 1 sent no heartbeat for 8s"}
	twoOfFour := []info{number(keyHeartbeatTime, 4), number(keyHeartbeatDrops, 2)}
	for name, test := range map[string]struct {
		infos   []info
		handler status // code for which rank 2, on another node, registers; 0 for none
		cancel  string
		want    []string
	}{
		"nobody decides":       {infos: twoOfFour, want: failed},
		"a handler for all":    {infos: twoOfFour, handler: -1, want: failed},
		"a handler decides":    {infos: twoOfFour, handler: alertHeartbeat},
		"the program decides":  {infos: append([]info{attr(keyMonitorControl, true)}, twoOfFour...)},
		"the monitor is ended": {infos: append([]info{named}, twoOfFour...), cancel: "m"},
		"another is":           {infos: append([]info{named}, twoOfFour...), cancel: "n", want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := spread("gorun-1", 4, 2)
				all := start(t, 2, w)
				ranks := all.joinAll(w)
				switch test.handler {
				case -1:
					require.Equal(t, statusSuccess, ranks[2].status(commandRegisterEvents, registration()))
				case alertHeartbeat:
					require.Equal(t, statusSuccess, ranks[2].status(commandRegisterEvents, registration(alertHeartbeat)))
				}
				ranks[1].heartbeat() // without a monitor
				require.Equal(t, statusSuccess, ranks[1].status(commandMonitor, monitorBody(watch, test.infos...)))
				for range 5 {
					time.Sleep(7 * time.Second)
					ranks[1].heartbeat()
				}
				require.Empty(t, all.received.failed())
				if test.cancel != "" {
					end := attr(keyMonitorCancel, test.cancel)
					require.Equal(t, statusSuccess, ranks[1].status(commandMonitor, monitorBody(end)))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, test.want, all.received.failed(), "once")
				ranks[2].call(commandQuery, func(e *encoder) { e.oneSize(0) })
				require.Equal(t, test.handler == alertHeartbeat, len(ranks[2].received) == 1)
				for _, c := range ranks {
					require.Equal(t, statusSuccess, c.status(commandFinalize, nil))
				}
			})
		})
	}
}

// A stopped rank misses no heartbeat, and its interval restarts when it continues.
func TestSuspendedRanksMissNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		c := all.join(w, 1)
		watch := attr(keyHeartbeat, true)
		require.Equal(t, statusSuccess, c.status(commandMonitor, monitorBody(watch, number(keyHeartbeatTime, 8))))
		time.Sleep(7 * time.Second)
		all.servers[0].Suspend(true)
		time.Sleep(time.Hour)
		all.servers[0].Suspend(false)
		time.Sleep(7 * time.Second)
		require.Empty(t, all.received.failed())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"failed 1 sent no heartbeat for 8s"}, all.received.failed())
	})
}

func TestMonitorsThatCannotBe(t *testing.T) {
	w := spread("gorun-1", 1, 1)
	c := start(t, 1, w).join(w, 0)
	watch, file := attr(keyHeartbeat, true), attr(keyFile, "/tmp")
	second := number(keyHeartbeatTime, 1)
	ask := func(what info, infos ...info) status { return c.status(commandMonitor, monitorBody(what, infos...)) }
	require.Equal(t, statusBadParameter, ask(watch), "without a time")
	require.Equal(t, statusBadParameter, ask(file, number(keyFileTime, 1)), "what changes is not said")
	require.Equal(t, statusNotSupported, ask(info{key: "pmix.monitor.else"}, second))
	for range maxMonitors {
		require.Equal(t, statusSuccess, ask(watch, number(keyHeartbeatTime, 1<<30), number(keyHeartbeatDrops, 1<<31)))
	}
	require.Equal(t, statusOutOfResource, ask(watch, second))
}

func TestFileMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := spread("gorun-1", 2, 1)
		all := start(t, 1, w)
		w.Apps[0].Dir = t.TempDir()
		path := filepath.Join(w.Apps[0].Dir, "progress")
		c := all.join(w, 1)
		watch := attr(keyFile, "progress")
		grows := attr("pmix.monitor.fsize", true)
		body := monitorBody(watch, grows, number(keyFileTime, 10), number(keyFileDrops, 3))
		require.Equal(t, statusSuccess, c.status(commandMonitor, body))
		time.Sleep(time.Hour) // the file may appear yet
		for size := range 4 {
			require.NoError(t, os.WriteFile(path, make([]byte, size+1), 0o600))
			time.Sleep(25 * time.Second)
		}
		require.Empty(t, all.received.failed())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"failed 1 did not change the size of " + path + " for 30s"}, all.received.failed())
	})
}
