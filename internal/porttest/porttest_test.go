package porttest

import (
	"net"
	"testing"
)

func TestOffsetsAreHeldUntilTheEndOfTheTest(t *testing.T) {
	first := 0
	t.Run("holder", func(t *testing.T) {
		first = Offset(t, 3)
		if second := Offset(t, 3); second == first {
			t.Fatalf("offset %d was given twice", first)
		}
	})
	if again := Offset(t, 3); again != first {
		t.Logf("offset %d was taken by another process", first)
	}
}

func TestATestThatMovesItsTemporaryFolderSeesTheLocks(t *testing.T) {
	first := Offset(t, 1)
	t.Setenv("TMPDIR", t.TempDir())
	if second := Offset(t, 1); second == first {
		t.Fatalf("offset %d was given twice", first)
	}
}

func TestABusyPortIsPassedOver(t *testing.T) {
	offset := 0
	t.Run("finder", func(t *testing.T) { offset = Offset(t, 1) })
	l, err := net.Listen("tcp", address(tcpPorts[0]+offset))
	if err != nil {
		t.Skipf("somebody else was faster: %v", err)
	}
	defer l.Close()
	if got := Offset(t, 1); got == offset {
		t.Fatalf("offset %d was given although a port is in use", offset)
	}
}

func TestSinglePortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 3 {
		for _, port := range Ports(t, 3) {
			if seen[port] {
				t.Fatalf("port %d was given twice", port)
			}
			seen[port] = true
		}
	}
}
