package consul

import "testing"

func TestURLNamesTheSameStore(t *testing.T) {
	for text, c := range map[string]Config{
		"consul://127.0.0.1:8500":            {Address: "127.0.0.1:8500"},
		"consul://127.0.0.1:8500/prod/a":     {Address: "127.0.0.1:8500", Prefix: "prod/a"},
		"consul://":                          {},
		"consul:///prod":                     {Prefix: "prod"},
		"consul://c.example:8501?https=true": {Address: "https://c.example:8501"},
		"consul://[::1]:8500/p?ca=%2Fetc%2Fca.pem&dc=eu&ns=n&partition=p&server_name=s&token_file=%2Ft": {
			Address: "[::1]:8500", Prefix: "p", Datacenter: "eu", Namespace: "n", Partition: "p", TokenFile: "/t", TLS: TLS{CA: "/etc/ca.pem", ServerName: "s"}},
	} {
		got, err := ParseURL(text)
		if err != nil || got != c {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, c)
		}
		again, err := ParseURL(c.URL())
		if err != nil || again != c {
			t.Errorf("%s, written as %s: %+v, %v", text, c.URL(), again, err)
		}
	}
	if c, err := ParseURL("consul:"); err != nil || c != (Config{}) {
		t.Errorf("consul: alone: %+v, %v", c, err)
	}
	for _, text := range []string{"", "config", "http://127.0.0.1:8500", "consul://u:p@host:1", "consul://host:1?token=secret", "consul://host:1?dc=a&dc=b", "consul://%zz"} {
		if c, err := ParseURL(text); err == nil {
			t.Errorf("%q is taken as %+v", text, c)
		}
	}
}
