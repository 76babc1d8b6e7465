package fec

import "testing"

func TestParseMode(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"", "auto"}, {"auto", "auto"}, {"off", "off"}, {"20+4", "20+4"}, {"1+1", "1+1"}, {"64+32", "64+32"},
	} {
		m, err := ParseMode(c.in)
		if err != nil || m.String() != c.out {
			t.Errorf("%q: %v, %v; want %s", c.in, m, err, c.out)
		}
		again, err := ParseMode(m.String())
		if err != nil || again != m {
			t.Errorf("%q does not read back: %v, %v", m, again, err)
		}
	}
	for _, in := range []string{"on", "20", "20+", "+4", "0+1", "1+0", "65+1", "20+33", "20+4+1", "-1+2", "20 + 4"} {
		if m, err := ParseMode(in); err == nil {
			t.Errorf("%q is taken as %v", in, m)
		}
	}
}

func TestOverhead(t *testing.T) {
	if got := (Code{Data: 20, Parity: 5}).Overhead(); got != .25 {
		t.Errorf("20+5 adds %v", got)
	}
	if !(Code{}).Off() || (Code{}).Overhead() != 0 {
		t.Error("the zero code adds something")
	}
}
