package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// One request takes at most this many lines and bytes, or one larger line.
const (
	produceLines = 1000
	produceBytes = 512 << 10
	maxInputLine = 8 << 20
)

func produceCommand() *cobra.Command {
	a := &asking{}
	p := producer{asking: a}
	var partition int32
	c := &cobra.Command{Use: "produce TOPIC [VALUE…]", Short: "Append records: the values given, or each line of standard input",
		Args: between(1, -1, "a TOPIC, and values"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicNamed(c, args[0])
			if err != nil {
				return err
			}
			if partition >= 0 {
				p.partition = &partition
			}
			next := lines(c.InOrStdin())
			if len(args) > 1 {
				next = values(args[1:])
			}
			return a.ask(c, func(conn *client.Client) error { return p.run(c, conn, name, next) })
		}}
	a.flags(c)
	c.Flags().Int32Var(&partition, "partition", -1, "append to this partition (default: by the key)")
	c.Flags().StringVar(&p.key, "key", "", "key of all records")
	c.Flags().StringVar(&p.separator, "key-separator", "", "what stands before the first one of these is the record's key")
	return c
}

type producer struct {
	*asking
	partition *int32
	key       string
	separator string
}

// run sends what next gives until io.EOF, in requests of many records, one after
// the other so that their order is kept.
func (p *producer) run(c *cobra.Command, conn *client.Client, name rhumb.Topic, next func() (string, error)) error {
	for done := false; !done; {
		var req api.ProduceRequest
		req.Partition = p.partition
		for bytes := 0; len(req.Records) < produceLines && bytes < produceBytes; {
			line, err := next()
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if err != nil {
				return err
			}
			bytes += len(line)
			req.Records = append(req.Records, p.record(line))
		}
		if len(req.Records) == 0 {
			return nil
		}
		resp, err := conn.Produce(c.Context(), name, req)
		if err != nil {
			return err
		}
		if err := p.print(c.OutOrStdout(), resp, func(w io.Writer) {
			fmt.Fprintf(w, "stored %d in %s partition %d at offset %d\n", resp.Count, short(resp.Topic), resp.Partition, resp.BaseOffset)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) record(line string) api.ProduceRecord {
	r := api.ProduceRecord{Value: api.Bytes(line)}
	if p.key != "" {
		r.Key = api.Bytes(p.key)
	}
	if p.separator != "" {
		if key, value, found := strings.Cut(line, p.separator); found {
			r.Key, r.Value = api.Bytes(key), api.Bytes(value)
		}
	}
	return r
}

func values(all []string) func() (string, error) {
	return func() (string, error) {
		if len(all) == 0 {
			return "", io.EOF
		}
		v := all[0]
		all = all[1:]
		return v, nil
	}
}

func lines(in io.Reader) func() (string, error) {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxInputLine)
	return func() (string, error) {
		if s.Scan() {
			return s.Text(), nil
		}
		if err := s.Err(); err != nil {
			return "", rhumb.Errorf(rhumb.KindInvalid, "standard input: %w", err)
		}
		return "", io.EOF
	}
}

// followWait is how long one request waits for new records.
const followWait = 20 * time.Second

// consumePage is how many records one request takes.
const consumePage = 500

func consumeCommand() *cobra.Command {
	a := &asking{}
	o := consumer{asking: a}
	c := &cobra.Command{Use: "consume TOPIC", Short: "Print records with their origin: region, life and offset there",
		Long: "Print records with their origin: region, life and offset there. With -o json, one document per line.\n" +
			"Nothing is committed. All partitions are read, one after the other; to follow a topic, name the partition.",
		Args: exactly(1, "one TOPIC"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicNamed(c, args[0])
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error { return o.run(c, conn, name) })
		}}
	a.flags(c)
	f := c.Flags()
	f.Int32Var(&o.partition, "partition", -1, "read only this partition")
	f.StringVar(&o.from, "from", "earliest", "earliest, latest or an offset")
	f.IntVarP(&o.max, "max", "n", 0, "stop after this many records (default: at the end)")
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more at the end, until interrupted")
	return c
}

type consumer struct {
	*asking
	partition int32
	from      string
	max       int
	follow    bool
	shown     int
}

func (o *consumer) run(c *cobra.Command, conn *client.Client, name rhumb.Topic) error {
	partitions := []int32{o.partition}
	if at, err := strconv.ParseInt(o.from, 10, 64); o.from != "earliest" && o.from != "latest" && (err != nil || at < 0) {
		return usage(c, fmt.Errorf("--from %q is none of earliest, latest or an offset", o.from))
	}
	if o.partition < 0 {
		t, err := conn.Describe(c.Context(), name)
		if err != nil {
			return err
		}
		if o.follow && t.Partitions > 1 {
			return usage(c, fmt.Errorf("topic %s has %d partitions: to follow it, name one with --partition", name.Short(), t.Partitions))
		}
		partitions = partitions[:0]
		for p := range t.Partitions {
			partitions = append(partitions, p)
		}
	}
	out := bufio.NewWriter(c.OutOrStdout())
	defer out.Flush()
	for _, p := range partitions {
		if err := o.read(c, conn, client.ConsumeQuery{Topic: name, Partition: p, From: o.from}, out); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether as many records were shown as were asked for.
func (o *consumer) full() bool { return o.max > 0 && o.shown >= o.max }

func (o *consumer) read(c *cobra.Command, conn *client.Client, q client.ConsumeQuery, out *bufio.Writer) error {
	for !o.full() {
		q.Max = consumePage
		if o.max > 0 {
			q.Max = min(q.Max, o.max-o.shown)
		}
		if o.follow {
			q.Wait = followWait
		}
		list, err := conn.Consume(c.Context(), q)
		if err != nil {
			if o.follow && c.Context().Err() != nil {
				return nil // interrupted, as it is meant to end
			}
			return err
		}
		for _, r := range list.Records {
			if err := o.show(out, r); err != nil {
				return err
			}
		}
		o.shown += len(list.Records)
		if err := out.Flush(); err != nil {
			return err
		}
		if list.Next >= list.End && !o.follow {
			return nil
		}
		q.From = fmt.Sprint(list.Next)
	}
	return nil
}

func (o *consumer) show(out *bufio.Writer, r api.Record) error {
	switch o.String() {
	case "json":
		text, err := jsonText(r, "")
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	case "yaml":
		out.WriteString("---\n")
		return o.print(out, r, nil)
	}
	origin := fmt.Sprintf("%s:%.8s@%d", regionText(r.Origin.RegionName, r.Origin.Region), r.Origin.Life, r.Origin.Offset)
	_, err := fmt.Fprintf(out, "%d@%d\t%s\t%s\t%s\n", r.Partition, r.Offset, origin, plain(r.Key), plain(r.Value))
	return err
}

// plain shows bytes on one line: as they are if they are harmless text, quoted if not.
func plain(b api.Bytes) string {
	if b == nil {
		return "-"
	}
	s := string(b)
	if q := fmt.Sprintf("%q", s); s == "" || s == "-" || q != `"`+s+`"` {
		return q
	}
	return s
}
