package consul

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	// lookEvery is how often a registration looks whether the agent still knows its
	// services: one that was started again on other data does not.
	lookEvery = 15 * time.Second
	// checkEvery and checkTime are of the agent's health checks.
	checkEvery, checkTime = 10 * time.Second, 5 * time.Second
	// forgetAfter is when the agent forgets a service whose check failed all the time:
	// a region that is gone for good and could not say so.
	forgetAfter = 72 * time.Hour
	// callTime bounds one call of the agent.
	callTime = 10 * time.Second
)

// Service is one listener of a region, as the catalogue of Consul shows it.
type Service struct {
	ID, Name string
	Address  string // host
	Port     int
	Tags     []string
	Meta     map[string]string
	// CheckURL is what the agent gets to see whether the service is healthy; empty: it
	// connects to Address and Port instead.
	CheckURL string
}

// Registration keeps services registered at the agent.
type Registration struct {
	store    *Store
	services []Service
	every    time.Duration
	log      *slog.Logger

	calling sync.Mutex // held during calls, so that none registers after the end; before mu
	stopped bool       // under calling

	mu    sync.Mutex // never held during calls: whoever asks for health does not wait for Consul
	tried bool
	err   error
}

// Register makes a registration; Run does it. Zero every: 15 seconds.
func (s *Store) Register(services []Service, every time.Duration, logger *slog.Logger) *Registration {
	return &Registration{store: s, services: services, every: cmp.Or(max(every, 0), lookEvery), log: logger}
}

// Run registers the services, again after the agent has forgotten them, until ctx
// ends. An agent that is down is tried again.
func (r *Registration) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		before := r.Err()
		err := r.look(ctx)
		switch {
		case err != nil && before == nil && ctx.Err() == nil:
			r.log.Warn("services are not registered", "err", err)
		case err == nil && before != nil:
			r.log.Info("services are registered")
		}
		sleep(ctx, r.every/2+time.Duration(r.store.jitter()*float64(r.every/2)))
	}
	return nil
}

// look registers what the agent does not know, unless the end has come, and gives
// what came of the last try.
func (r *Registration) look(ctx context.Context) error {
	r.calling.Lock()
	defer r.calling.Unlock()
	if r.stopped {
		return r.Err()
	}
	err := r.ensure(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.tried = err, true
	return err
}

// Err says why the services are not registered; nil if they are, or as long as
// nothing is known.
func (r *Registration) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Tried reports whether the agent was told, or refused, at least once.
func (r *Registration) Tried() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tried
}

// Deregister takes the services away, and keeps Run from bringing them back.
func (r *Registration) Deregister(ctx context.Context) error {
	r.calling.Lock()
	defer r.calling.Unlock()
	r.stopped = true
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for _, sv := range r.services {
		err := r.store.client.Agent().ServiceDeregisterOpts(sv.ID, new(api.QueryOptions).WithContext(ctx))
		if err != nil && !isStatus(err, http.StatusNotFound) {
			return r.store.explain(ctx, "deregister "+sv.ID, err)
		}
	}
	return nil
}

// ensure registers what the agent does not know, or knows otherwise. What it knows
// stays untouched: to register it again would reset its checks.
func (r *Registration) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, rhumb.Errorf(rhumb.KindTimeout, "configstore: consul at %s did not answer within %v", r.store.address, callTime))
	defer cancel()
	for _, sv := range r.services {
		// Not by its own path: the agent would log each one that it does not know as an error.
		known, err := r.store.client.Agent().ServicesWithFilterOpts(`ID == "`+sv.ID+`"`, new(api.QueryOptions).WithContext(ctx))
		if err != nil {
			return r.store.explain(ctx, "look for service "+sv.ID, err)
		}
		if k := known[sv.ID]; k != nil && sv.same(k) {
			continue
		}
		opts := api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx)
		if err := r.store.client.Agent().ServiceRegisterOpts(sv.registration(), opts); err != nil {
			return r.store.explain(ctx, "register "+sv.ID, err)
		}
		r.log.Info("service is registered at consul", "service", sv.Name, "id", sv.ID)
	}
	return nil
}

func isStatus(err error, code int) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == code
}

func (sv *Service) same(known *api.AgentService) bool {
	return known.Service == sv.Name && known.Address == sv.Address && known.Port == sv.Port &&
		slices.Equal(known.Tags, sv.Tags) && maps.Equal(known.Meta, sv.Meta)
}

// registration is healthy from the start: a region registers once it serves.
func (sv *Service) registration() *api.AgentServiceRegistration {
	check := &api.AgentServiceCheck{
		Interval: checkEvery.String(), Timeout: checkTime.String(), Status: api.HealthPassing,
		DeregisterCriticalServiceAfter: forgetAfter.String(),
	}
	if sv.CheckURL != "" {
		check.Name, check.HTTP, check.TLSSkipVerify = sv.Name+" is ready", sv.CheckURL, true
	} else {
		check.Name, check.TCP = sv.Name+" listens", hostPort(sv.Address, sv.Port)
	}
	return &api.AgentServiceRegistration{
		ID: sv.ID, Name: sv.Name, Address: sv.Address, Port: sv.Port, Tags: sv.Tags, Meta: sv.Meta, Check: check,
	}
}
