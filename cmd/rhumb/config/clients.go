package config

import (
	"net"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Mechanisms of SASL.
const (
	mechanismPlain  = "PLAIN"
	mechanismSHA256 = "SCRAM-SHA-256"
	mechanismSHA512 = "SCRAM-SHA-512"
)

// plainAllowed reports whether passwords may travel on the listener as they are.
func (l *Listener) plainAllowed() bool {
	host, _, err := net.SplitHostPort(l.Bind)
	return l.TLS != nil || err == nil && isLoopback(host)
}

// mechanisms gives all that the listener may offer, the strongest first.
func (l *Listener) mechanisms() []string {
	all := []string{mechanismSHA512, mechanismSHA256}
	if l.plainAllowed() {
		all = append(all, mechanismPlain)
	}
	return all
}

// Asks reports whether clients of a Kafka listener have to say who they are.
func (l *Listener) Asks() bool { return l.SASL != nil || l.TLS != nil && l.TLS.CA != "" }

// Space gives the namespace of clients that need not say who they are; zero: the
// listener names none.
func (l *Listener) Space() rhumb.Space {
	s, err := rhumb.ParseSpace(l.Namespace)
	if err != nil {
		return rhumb.Space{} // only "": Validate refuses others
	}
	return s
}

// checkClients checks what only Kafka listeners have.
func (l *Listener) checkClients(at string) error {
	if l.Protocol != ProtocolKafka {
		switch {
		case l.SASL != nil:
			return refuse(at+".sasl", "is for kafka listeners")
		case l.Namespace != "":
			return refuse(at+".namespace", "is for kafka listeners")
		case l.MaxConnections != 0:
			return refuse(at+".max_connections", "is for kafka listeners")
		}
		return nil
	}
	if l.Namespace != "" {
		if _, err := rhumb.ParseSpace(l.Namespace); err != nil {
			return refuse(at+".namespace", "%v", err)
		}
		if l.Asks() {
			return refuse(at+".namespace", "is for clients that need not say who they are: with sasl or tls.ca it is the user's")
		}
	}
	r := numberRange{at + ".max_connections", int64(l.MaxConnections), 0, 1 << 20, numberText}
	if err := r.check(); err != nil || l.SASL == nil {
		return err
	}
	return l.checkSASL(at + ".sasl")
}

func (l *Listener) checkSASL(at string) error {
	for i, m := range l.SASL.Mechanisms {
		if err := oneOf(at+".mechanisms", m, mechanismPlain, mechanismSHA256, mechanismSHA512); err != nil {
			return err
		}
		if slices.Contains(l.SASL.Mechanisms[:i], m) {
			return refuse(at+".mechanisms", "%s stands twice", m)
		}
		if m == mechanismPlain && !l.plainAllowed() {
			return refuse(at+".mechanisms", "PLAIN sends passwords as they are: give the listener tls, or offer SCRAM only")
		}
	}
	if s := l.SASL.Session; s != 0 && (s < Duration(time.Second) || s > Duration(365*day)) {
		return refuse(at+".session", "must be 0 (for ever) or 1s to 365d, not %s", s)
	}
	return nil
}
