package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// drawing is what 'topology show' draws, and says with -o json.
type drawing struct {
	Regions []api.RegionEntry `json:"regions"`
	Flows   []drawnFlow       `json:"flows"`
}

// drawnFlow is a namespace, or a topic with a topology of its own, with its edges.
type drawnFlow struct {
	Name   string           `json:"name"`  // TENANT/NAMESPACE or TENANT/NAMESPACE/TOPIC
	Shape  string           `json:"shape"` // empty: local
	Active rhumb.RegionName `json:"active,omitempty"`
	Edges  []api.Edge       `json:"edges"`
}

// drawFormat is the flag -o of 'topology show'.
type drawFormat struct{ format }

// Set takes one of the formats.
func (f *drawFormat) Set(s string) error {
	if s == "dot" || s == "text" {
		f.name = s
		return nil
	}
	if f.format.Set(s) != nil {
		return fmt.Errorf("want text, dot, json or yaml")
	}
	return nil
}

func topologyShow(a *asking) *cobra.Command {
	var f drawFormat
	c := &cobra.Command{Use: "show [TENANT[/NAMESPACE]]", Short: "Draw where namespaces flow", Args: between(0, 1, "at most a TENANT or TENANT/NAMESPACE"),
		Long:    "Draw where namespaces flow, as text or for Graphviz (-o dot). What is drawn is what the region that is asked has in force.",
		Example: "  rhumb topology show acme -o dot | dot -Tsvg > acme.svg",
		ValidArgsFunction: a.complete(0, 1, func(ctx context.Context, conn *client.Client) []string {
			return append(tenantNames(ctx, conn), namespaceNames(ctx, conn)...)
		}),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, func(conn *client.Client) error {
				d, err := draw(c, conn, args)
				if err != nil {
					return err
				}
				noteCut(c, conn)
				switch f.String() {
				case "dot":
					return d.dot(c.OutOrStdout())
				case "json", "yaml":
					return f.print(c.OutOrStdout(), d, nil)
				}
				return d.text(c.OutOrStdout())
			})
		}}
	c.Flags().VarP(&f, "output", "o", "text, dot, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "dot", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// draw asks for what is in force.
func draw(c *cobra.Command, conn *client.Client, args []string) (drawing, error) {
	var d drawing
	var err error
	if d.Regions, err = conn.Regions(c.Context()); err != nil {
		return d, err
	}
	list, err := conn.EdgeList(c.Context())
	if err != nil {
		return d, err
	}
	spaces, err := conn.Namespaces(c.Context())
	if err != nil {
		return d, err
	}
	flows := map[string]*drawnFlow{}
	for _, n := range spaces {
		flows[n.Space.String()] = &drawnFlow{Name: n.Space.String(), Shape: n.Topology.Shape(), Active: n.Active(), Edges: []api.Edge{}}
	}
	for _, name := range list.OwnTopology {
		if t, err := rhumb.ParseTopic(name); err == nil {
			at := string(t.Tenant) + "/" + string(t.Namespace) + "/" + string(t.Name)
			flows[at] = &drawnFlow{Name: at, Shape: "its own", Edges: []api.Edge{}}
		}
	}
	for _, e := range list.Edges {
		name := string(e.Tenant) + "/" + string(e.Namespace)
		if e.Topic != "" {
			name += "/" + string(e.Topic)
		}
		if flows[name] == nil {
			flows[name] = &drawnFlow{Name: name}
		}
		flows[name].Edges = append(flows[name].Edges, e)
	}
	d.Flows = []drawnFlow{}
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		if len(args) == 0 || name == args[0] || strings.HasPrefix(name, strings.TrimSuffix(args[0], "/")+"/") {
			d.Flows = append(d.Flows, *flows[name])
		}
	}
	if len(args) > 0 && len(d.Flows) == 0 {
		if err := hidden(conn, "namespace in "+args[0]); err != nil {
			return d, err
		}
		known := spaces
		if !strings.Contains(args[0], "/") { // a tenant is meant
			known = slices.Clone(spaces)
			for i := range known {
				known[i].Space.Namespace = ""
			}
		}
		hint := nearest.Hint(args[0], known, func(n *api.Namespace) string { return strings.TrimSuffix(n.Space.String(), "/") })
		return d, rhumb.Errorf(rhumb.KindNotFound, "there is no namespace in %q%s: see which there are with 'rhumb namespace list'", args[0], hint)
	}
	return d, nil
}

// text draws each source with its destinations. An arrow of two lines forwards.
func (d drawing) text(w io.Writer) error {
	var b strings.Builder
	for i, f := range d.Flows {
		if i > 0 {
			b.WriteString("\n")
		}
		shape := f.Shape
		if len(f.Edges) == 0 {
			shape = strings.TrimPrefix(shape+", local", ", ")
		}
		fmt.Fprintf(&b, "%s  (%s)\n", f.Name, shape)
		wide := 0
		for _, e := range f.Edges {
			wide = max(wide, len(f.label(e.From)))
		}
		for k, e := range f.Edges {
			from := f.label(e.From)
			switch same := k > 0 && f.Edges[k-1].From == e.From; {
			case same && (k+1 == len(f.Edges) || f.Edges[k+1].From != e.From):
				from = strings.Repeat(" ", wide) + " └"
			case same:
				from = strings.Repeat(" ", wide) + " ├"
			case k+1 < len(f.Edges) && f.Edges[k+1].From == e.From:
				from += strings.Repeat(" ", wide-len(from)) + " ┬"
			default:
				from += strings.Repeat(" ", wide-len(from)) + " " + arrow(e)[:len("─")]
			}
			fmt.Fprintf(&b, "  %s%s %s%s\n", from, arrow(e), f.label(e.To), remark(e))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label names a region with its role.
func (f drawnFlow) label(r rhumb.RegionName) string {
	if r == f.Active {
		return string(r) + "*"
	}
	return string(r)
}

func arrow(e api.Edge) string {
	if e.Forward {
		return "══▶"
	}
	return "──▶"
}

// remark says what an edge has besides its ends.
func remark(e api.Edge) string {
	var out []string
	if e.Start == "latest" {
		out = append(out, "from latest")
	}
	if e.Rate > 0 {
		out = append(out, "at most "+limitText(e.Rate))
	}
	if len(out) == 0 {
		return ""
	}
	return "  " + strings.Join(out, ", ")
}

// dot draws a graph for Graphviz: a cluster for each flow, so that each can have its
// own edges.
func (d drawing) dot(w io.Writer) error {
	var b strings.Builder
	b.WriteString("digraph mesh {\n  rankdir=LR;\n  node [shape=box];\n")
	for i, f := range d.Flows {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q;\n", i, f.Name)
		named := map[rhumb.RegionName]bool{f.Active: f.Active != ""}
		for _, e := range f.Edges {
			named[e.From], named[e.To] = true, true
		}
		for _, r := range slices.Sorted(maps.Keys(named)) {
			if named[r] {
				fmt.Fprintf(&b, "    %q [label=%q];\n", fmt.Sprintf("%d %s", i, r), f.label(r))
			}
		}
		for _, e := range f.Edges {
			style := "solid"
			if e.Forward {
				style = "bold"
			}
			fmt.Fprintf(&b, "    %q -> %q [style=%s, label=%q];\n", fmt.Sprintf("%d %s", i, e.From), fmt.Sprintf("%d %s", i, e.To), style, strings.TrimSpace(remark(e)))
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
