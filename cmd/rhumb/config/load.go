package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/yamlfault"
	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds a configuration file, and with it what YAML can expand to.
const maxFileBytes = 1 << 20

// Load reads, completes and validates a file. Relative paths in it are taken
// from the file's directory. Errors name the file and, where there is one, the
// line.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "config: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "config: %w", err)
	}
	c, lines, err := parse(raw)
	if err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", path, err)
	}
	if err := c.resolve(filepath.Dir(path)); err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", path, err)
	}
	if err := c.Validate(); err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", path, lines.locate(err))
	}
	return c, nil
}

// Parse reads, completes and validates the text of a file; relative paths stay.
func Parse(raw []byte) (Config, error) {
	c, lines, err := parse(raw)
	if err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "%w", err)
	}
	c.complete()
	if err := c.Validate(); err != nil {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "%w", lines.locate(err))
	}
	return c, nil
}

// parse decodes one YAML document over the defaults.
func parse(raw []byte) (Config, *lines, error) {
	if len(raw) > maxFileBytes {
		return Config{}, nil, fmt.Errorf("config: file has more than %d bytes", maxFileBytes)
	}
	c := Defaults()
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, nil, fmt.Errorf("config: %s", cleanYAML(raw, err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			return Config{}, nil, fmt.Errorf("config: %s", cleanYAML(raw, err))
		}
		return Config{}, nil, errors.New("config: only one YAML document is allowed")
	}
	at := &lines{}
	if err := yaml.Unmarshal(raw, &at.root); err != nil {
		return Config{}, nil, fmt.Errorf("config: %s", cleanYAML(raw, err))
	}
	if n := at.hollow(&at.root); n != nil {
		return Config{}, nil, fmt.Errorf("config: line %d: %s: has nothing in it: say what is meant, or leave it out", n.Line, n.Value)
	}
	return c, at, nil
}

// cleanYAML puts the decoder's errors on one line, each with its own line of the file, and
// takes Go's type names out.
func cleanYAML(raw []byte, err error) string {
	var out []string
	for _, f := range yamlfault.Of(raw, err) {
		what := f.What
		if before, _, ok := strings.Cut(what, " not found in type "); ok {
			what = strings.Replace(before, "field ", "no such key: ", 1)
		}
		said := mistyped.ReplaceAllStringFunc(what, sayTypes)
		if key := keyAt(raw, f.Line); key != "" && (said != what || unread.MatchString(what)) {
			said = key + " " + said
		}
		out = append(out, fmt.Sprintf("line %d: %s", f.Line, said))
	}
	return strings.Join(out, "; ")
}

// unread is how a value of ours says that it cannot be read: of which key it does not know.
var unread = regexp.MustCompile(`^(".*" is no (size|duration)|want a single value)`)

// keyAt gives the key with which a line begins, if it begins with one.
func keyAt(raw []byte, line int) string {
	lines := bytes.Split(raw, []byte("\n"))
	if line > len(lines) {
		return ""
	}
	m := keyed.FindSubmatch(lines[line-1])
	if m == nil {
		return ""
	}
	return string(m[1]) + ":"
}

var keyed = regexp.MustCompile(`^[ -]*([a-z_]+):`)

// mistyped is how the decoder says that a value is of another type than a key wants.
var mistyped = regexp.MustCompile("cannot unmarshal !!([a-z]+)( `[^`]*`)? into (.+)$")

// sayTypes puts it in words of the file's.
func sayTypes(text string) string {
	m := mistyped.FindStringSubmatch(text)
	has := map[string]string{"seq": "a list", "map": "fields", "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}[m[1]]
	if has == "" {
		has = "a value" + m[2]
	} else {
		has += m[2]
	}
	wants := "fields" // types of ours
	switch goType := strings.TrimLeft(m[3], "*"); {
	case strings.HasPrefix(goType, "[]"):
		wants = "a list"
	case goType == "string", strings.HasSuffix(goType, "Name"), goType == "config.Durability", goType == "config.LogWrites":
		wants = "text"
	case goType == "bool":
		wants = "true or false"
	case strings.HasPrefix(goType, "int") || strings.HasPrefix(goType, "uint"), strings.HasSuffix(goType, "Number"):
		wants = "a whole number"
	case strings.HasPrefix(goType, "float"):
		wants = "a number"
	}
	return "has " + has + ", and must have " + wants
}

// complete fills in what follows from other fields.
func (c *Config) complete() {
	c.ConfigStore.complete()
	if e := c.ConfigStore.Embedded; e != nil && e.Path == "" && c.DataDir != "" {
		e.Path = filepath.Join(c.DataDir, "config-store")
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if l.Name == "" {
			l.Name = l.Protocol
		}
		if l.Bind == "" {
			l.Bind = defaultBind(l.Protocol)
		}
		if l.SASL != nil && len(l.SASL.Mechanisms) == 0 {
			l.SASL = &SASL{Mechanisms: l.mechanisms(), Session: l.SASL.Session}
		}
		if l.Advertise == "" && !needsAdvertise(l.Bind) {
			l.Advertise = l.Bind
		}
	}
}

// complete settles which store it is: a file that says consul means no other, though
// the defaults have an embedded one.
func (c *ConfigStore) complete() {
	switch {
	case c.Consul == nil && c.Embedded == nil:
		c.Embedded = &EmbeddedStore{}
	case c.Consul != nil && c.Embedded != nil && c.Embedded.Path == "":
		c.Embedded = nil
	}
	if c.Consul != nil && c.Consul.Services == "" {
		c.Consul.Services = ServicesRegister
	}
}

// needsAdvertise reports whether a bind address cannot be told to others.
func needsAdvertise(bind string) bool {
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return true
	}
	ip := net.ParseIP(host)
	return host == "" || port == "0" || ip != nil && ip.IsUnspecified()
}

// resolve makes paths absolute, reads the token file and completes.
func (c *Config) resolve(dir string) error {
	paths := []*string{&c.DataDir, &c.Admin.TokenFile}
	if c.ConfigStore.Embedded != nil {
		paths = append(paths, &c.ConfigStore.Embedded.Path)
	}
	for i := range c.Admin.Tokens {
		paths = append(paths, &c.Admin.Tokens[i].TokenFile)
	}
	if consul := c.ConfigStore.Consul; consul != nil {
		paths = append(paths, &consul.TokenFile)
		if t := consul.TLS; t != nil {
			paths = append(paths, &t.CA, &t.Cert, &t.Key)
		}
	}
	for i := range c.Listeners {
		if t := c.Listeners[i].TLS; t != nil {
			paths = append(paths, &t.CA, &t.Cert, &t.Key)
		}
	}
	for _, p := range paths {
		if rhumb.IsURL(*p) {
			return fmt.Errorf("%s is no directory or file", *p)
		}
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	c.complete()
	if c.Admin.TokenFile == "" {
		return nil
	}
	if c.Admin.Token != "" {
		return refuse("admin.token_file", "cannot be given together with admin.token")
	}
	raw, err := os.ReadFile(c.Admin.TokenFile)
	if err != nil {
		return refuse("admin.token_file", "%v", err)
	}
	c.Admin.Token = strings.TrimRight(string(raw), " \t\r\n")
	if c.Admin.Token == "" {
		return refuse("admin.token_file", "the file is empty")
	}
	return nil
}
