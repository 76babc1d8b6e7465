package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxControlBody bounds a command: names and a list of settings.
const maxControlBody = 16 << 10

// DefaultControl is the path of the socket where this user's mesh takes commands.
func DefaultControl() string {
	return filepath.Join(os.TempDir(), "rhumb-dev-"+strconv.Itoa(os.Getuid())+".sock")
}

// Command is what a client asks of a running mesh.
type Command struct {
	// Do is "kill" or "start" (of Region), "set" (of Link, with Settings) or
	// "show".
	Do       string           `json:"do"`
	Region   rhumb.RegionName `json:"region,omitempty"`
	Link     string           `json:"link,omitempty"`
	Settings string           `json:"settings,omitempty"`
}

// State is what a running mesh says of itself.
type State struct {
	Data    string        `json:"data"`
	Regions []RegionState `json:"regions"`
	Links   []LinkState   `json:"links"`
}

// RegionState is one region of a running mesh. PID is the process it runs in.
type RegionState struct {
	Name    rhumb.RegionName `json:"name"`
	Running bool             `json:"running"`
	PID     int              `json:"pid"`
	Kafka   string           `json:"kafka"`
	Admin   string           `json:"admin"`
	Geo     string           `json:"geo"`
}

// LinkState is one direction of the network between two regions.
type LinkState struct {
	From     rhumb.RegionName `json:"from"`
	To       rhumb.RegionName `json:"to"`
	Settings string           `json:"settings"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	State *State `json:"state,omitempty"`
}

// listenControl opens the socket. A socket file that nobody answers on is left
// over from a mesh that was killed, and is replaced.
func listenControl(path string) (net.Listener, error) {
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, rhumb.Errorf(rhumb.KindExists, "another `rhumb dev` is running (it answers on %s); stop it, or give each its own --control", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSocket == 0 {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "control socket %s: there is something else; give another path with --control", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, os.Chmod(path, 0o600)
}

// serveControl answers commands until the context ends.
func serveControl(ctx context.Context, l net.Listener, do func(context.Context, Command) (*State, error)) error {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var cmd Command
		var out answer
		err := json.NewDecoder(io.LimitReader(r.Body, maxControlBody)).Decode(&cmd)
		if err == nil {
			out.State, err = do(r.Context(), cmd)
		}
		if err != nil {
			out.Error = err.Error()
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(out)
	})
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Send gives a command to the mesh that listens on path, and gives its state
// after it.
func Send(ctx context.Context, path string, cmd Command) (*State, error) {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	body, err := json.Marshal(cmd)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://dev/", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "no `rhumb dev` answers on %s; is it running? (%w)", path, err)
	}
	defer resp.Body.Close()
	var out answer
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, fmt.Errorf("read the answer of `rhumb dev`: %w", err)
	}
	if out.Error != "" {
		return nil, errors.New(out.Error)
	}
	return out.State, nil
}
