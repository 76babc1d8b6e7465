package admin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// statusOf maps each kind of error to its HTTP status. This is the only place
// that does; a test holds it complete.
func statusOf(k rhumb.Kind) int {
	switch k {
	case rhumb.KindInvalid:
		return http.StatusBadRequest
	case rhumb.KindNotFound:
		return http.StatusNotFound
	case rhumb.KindExists, rhumb.KindFenced, rhumb.KindDiverged, rhumb.KindOutOfOrder, rhumb.KindMissing,
		rhumb.KindUnknownProducer:
		return http.StatusConflict
	case rhumb.KindOutOfRange:
		return http.StatusRequestedRangeNotSatisfiable
	case rhumb.KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case rhumb.KindForbidden:
		return http.StatusForbidden
	case rhumb.KindNotLeader, rhumb.KindUnavailable:
		return http.StatusServiceUnavailable
	case rhumb.KindNoSpace:
		return http.StatusInsufficientStorage
	case rhumb.KindTimeout:
		return http.StatusGatewayTimeout
	case rhumb.KindUnsupported:
		return http.StatusNotImplemented
	case rhumb.KindCorrupt, rhumb.KindInternal:
	}
	return http.StatusInternalServerError
}

// nextStep says what a person can do about a kind of error, empty where the
// message has to say it.
func nextStep(k rhumb.Kind) string {
	switch k {
	case rhumb.KindNotFound:
		return "see what there is with 'rhumb topic list'"
	case rhumb.KindExists:
		return "see it with 'rhumb topic describe'"
	case rhumb.KindNotLeader, rhumb.KindUnavailable:
		return "try again in a moment; /readyz says what is not ready"
	case rhumb.KindNoSpace:
		return "free disk space or shorten retention; writes open again by themselves"
	case rhumb.KindTimeout:
		return "it may or may not have happened: look before trying again"
	case rhumb.KindOutOfRange:
		return "see what is kept with 'rhumb topic describe'"
	case rhumb.KindCorrupt:
		return "stop the node and run 'rhumb log verify DIR' on its data directory"
	case rhumb.KindDiverged:
		return "see 'rhumb link diverged'; 'rhumb link resolve' gives the source a new life from the last common offset on"
	case rhumb.KindInternal:
		return "this is a fault of the server: please report it with the server's log"
	}
	return ""
}

// lists names the kinds of documents that a person lists with a command, by the
// beginning of their keys.
var lists = map[string]string{
	configstore.RegionsPrefix: "region", configstore.TenantsPrefix: "tenant",
	configstore.NamespacesPrefix: "namespace", configstore.UsersPrefix: "user",
}

// nextStepOf says what a person can do about an error: what is known of this one goes
// before what holds for its kind.
func nextStepOf(err error) string {
	k, text := rhumb.KindOf(err), err.Error()
	switch {
	case errors.Is(err, configstore.ErrWentBack):
		return "see 'rhumb config status', and put back what regions have seen with 'rhumb config restore'"
	case errors.Is(err, configstore.ErrOtherMesh):
		return "see 'rhumb config status', which says what to do"
	case k == rhumb.KindUnavailable && strings.Contains(text, "configstore: "):
		return "try again when the configuration store answers, as 'rhumb config status' tells: until then what is known of it stays in force"
	case errors.Is(err, region.ErrPartitionLimit):
		return "delete topics, or raise limits.partitions in the region's file and start it again"
	case errors.Is(err, broker.ErrNamespaceLimit):
		return "" // it says so
	case errors.Is(err, configstore.ErrNotFound):
		for prefix, kind := range lists {
			if strings.Contains(text, prefix) {
				return "see what there is with 'rhumb " + kind + " list'"
			}
		}
	}
	return nextStep(k)
}

// apiError makes the answer's error of err.
func apiError(err error) api.Error {
	k := rhumb.KindOf(err)
	e := api.Error{Kind: k.String(), Message: err.Error()}
	if fields := configstore.FieldsOf(err); len(fields) > 0 {
		e.Field = fields[0].Field
		for i := range fields {
			if one := fields[i]; len(fields) > 1 {
				one.Key = "" // it is in the message
				e.Fields = append(e.Fields, api.FieldRefusal{Field: one.Field, Message: one.Error()})
			}
		}
	}
	if next := nextStepOf(err); next != "" && !strings.Contains(e.Message, "'rhumb ") && !errors.Is(err, errTooMany) {
		e.Message = strings.TrimRight(e.Message, " .;") + "; " + next
	}
	return e
}

// writeError answers a request with an error.
func writeError(w http.ResponseWriter, err error) {
	k := rhumb.KindOf(err)
	if k.Retriable() {
		w.Header().Set("Retry-After", "1")
	}
	status := statusOf(k)
	switch {
	case errors.Is(err, errNoToken) || errors.Is(err, errOtherToken) || errors.Is(err, errOtherCert):
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Bearer realm="rhumb"`)
	case errors.Is(err, errTooMany):
		status = http.StatusTooManyRequests
	}
	writeJSON(w, status, api.ErrorBody{Error: apiError(err)})
}
