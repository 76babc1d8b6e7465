// Package config reads the strict YAML file of one region, region.yaml, which
// `rhumb server --config` takes. Unknown keys are refused, every refusal names
// the line, and each field documents itself: [Reference] makes the table of the
// handbook from the same tags that [Load] obeys.
//
// What a region shares with others (topologies, tenants, retention per
// namespace) is not here but in the configuration store.
package config
