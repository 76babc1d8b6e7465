package storage

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// placedBytes reads a batch wherever it is, in small steps.
func placedBytes(t testing.TB, s *Stored) []byte {
	t.Helper()
	if s.Place == nil {
		return s.Batch
	}
	b, err := io.ReadAll(io.NewSectionReader(s.Place, 0, int64(s.Place.Size())+1))
	if err != nil || len(b) != s.Size() {
		t.Fatalf("batch at %d: %d of %d bytes, %v", s.Base, len(b), s.Size(), err)
	}
	return b
}

// readPlaces is readAll by place.
func readPlaces(t testing.TB, sh *Shard, p rhumb.PartitionID, from, end rhumb.Offset, maxBytes int) (got []Stored) {
	t.Helper()
	for from < end {
		list, err := sh.Read(Query{Partition: p, From: from, Limit: end, MaxBytes: maxBytes, ByPlace: true})
		if err != nil || len(list) == 0 {
			t.Fatalf("partition %d from %d: %d batches, %v", p, from, len(list), err)
		}
		from = list[len(list)-1].Last() + 1
		got = append(got, list...)
	}
	return got
}

// bigConfig has files that hold some large batches.
func bigConfig(fs vfs.FS) Config {
	cfg := testConfig(fs)
	cfg.FileSize, cfg.TailCache = 256<<10, 64<<10
	return cfg
}

func TestPlacesAreWhatIsRead(t *testing.T) {
	mem := func() vfs.FS { return vfs.NewMem(vfs.MemConfig{}) }
	for name, fs := range map[string]vfs.FS{"mem": mem(), "mem, direct": mem(), "os": vfs.OS(), "os, direct": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			cfg := bigConfig(fs)
			cfg.Direct = strings.HasSuffix(name, "direct")
			cfg.Dir = filepath.Join(t.TempDir(), "data")
			n := start(t, cfg)
			defer n.close()
			d := newDriver(t, n.store.Shard(1))
			for i := range 60 {
				d.produce([]int{100, MinPlace - 200, 20 << 10, 70 << 10, 300 << 10}[i%5], 1, 2)
			}
			want := readAll(t, d.sh, 1, 0, d.next[1], 1<<20)
			for _, step := range []int{1, 50 << 10, 1 << 20} {
				got := readPlaces(t, d.sh, 1, 0, d.next[1], step)
				placed, inMemory := 0, 0
				for i := range want {
					if b := placedBytes(t, &got[i]); !bytes.Equal(b, want[i].Batch) || got[i].Envelope != want[i].Envelope || got[i].Base != want[i].Base {
						t.Fatalf("batch %d differs", i)
					}
					if got[i].Place != nil {
						placed++
						if got[i].Place.Memory() != nil {
							inMemory++
						} else if _, _, system := got[i].Place.Conn(); system != strings.HasPrefix(name, "os") {
							t.Errorf("a file of the system: %v", system)
						}
					}
				}
				if len(got) != len(want) || placed < 30 || placed > 36 {
					t.Errorf("step %d: %d batches of %d, %d by place", step, len(got), len(want), placed)
				}
				if inMemory > 0 != cfg.Direct && name != "os, direct" { // not each system's disk does it
					t.Errorf("step %d: %d batches in memory", step, inMemory)
				}
				ReleasePlaces(got)
			}
		})
	}
}

// A place reads on when its file is gone, and what the kernel was given of it is not
// written over: the file does not become a spare one.
func TestI2PlaceOutlivesItsFile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := start(t, bigConfig(fs))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		for range 30 {
			d.produce(40<<10, 1)
		}
		synctest.Wait()
		held := readPlaces(t, d.sh, 1, 0, 20, 1<<20)
		want := readAll(t, d.sh, 1, 0, 20, 1<<20)
		d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 1}}})
		for range 30 {
			d.produce(41<<10, 1)
		}
		synctest.Wait()
		if _, err := d.sh.Read(Query{Partition: 1, Limit: 9, ByPlace: true}); rhumb.KindOf(err) != rhumb.KindOutOfRange {
			t.Errorf("below the log start: %v", err)
		}
		for i := range held {
			if held[i].Place != nil && !bytes.Equal(placedBytes(t, &held[i]), want[i].Batch) {
				t.Fatalf("batch at %d has changed", held[i].Base)
			}
		}
		first := fmt.Sprintf("%016x", 1)
		if names, _ := fs.List("data/log"); !strings.Contains(fmt.Sprint(names), first+".log") {
			t.Errorf("a file that is read is gone: %v", names)
		}
		ReleasePlaces(held)
		if names, _ := fs.List("data/log"); strings.Contains(fmt.Sprint(names), first) {
			t.Errorf("a file that was sent from is used again: %v", names)
		}
		if _, err := n.store.share(1); err != errRetry {
			t.Errorf("a file that is gone is shared: %v", err)
		}
	})
}

// A batch is compared with its CRC before it is given by place for the first time, and
// again after a while: a disk that spoils it does not stay unseen.
func TestI2DamagedBatchHasNoPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(vfs.MemConfig{})
		n := start(t, bigConfig(fs))
		defer n.close()
		d := newDriver(t, n.store.Shard(1))
		for range 12 {
			d.produce(100<<10, 1)
		}
		synctest.Wait()
		read := func() (list []Stored, err error) {
			list, err = d.sh.Read(Query{Partition: 1, Limit: 3, MaxBytes: 1 << 20, ByPlace: true})
			ReleasePlaces(list)
			return list, err
		}
		spoil := func(s *Stored) {
			f, err := fs.OpenReadWrite("data/log/0000000000000001.log")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			at, b := s.Place.pos+90<<10, make([]byte, 1)
			f.ReadAt(b, at)
			if _, err := f.WriteAt([]byte{b[0] ^ 4}, at); err != nil {
				t.Fatal(err)
			}
		}
		list, err := read()
		if err != nil || len(list) < 2 || list[1].Place == nil {
			t.Fatalf("%d batches, %v", len(list), err)
		}
		n.store.checked.forget(1)
		spoil(&list[1])
		first := func() bool { got, err := read(); return err == nil && len(got) == 1 && got[0].Base == list[0].Base }
		if !first() {
			t.Error("the second batch is damaged, and not the first alone comes")
		}
		if bad := n.store.Health().Damaged; len(bad) != 1 || bad[0].File != "log/0000000000000001.log" || bad[0].Offset != list[1].Base {
			t.Errorf("damage %+v", bad)
		}
		spoil(&list[1]) // well again
		if _, err := read(); err != nil {
			t.Error(err)
		}
		spoil(&list[1])
		if _, err := read(); err != nil {
			t.Errorf("it was compared a moment ago: %v", err)
		}
		time.Sleep(checkedFor + time.Minute)
		if !first() {
			t.Error("long after")
		}
		if len(n.store.log.Files()) == 0 {
			t.Fatal("no files")
		}
		d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 1}}})
		synctest.Wait()
		if bad := n.store.Health().Damaged; len(bad) > 0 {
			t.Errorf("the file is gone: %+v", bad)
		}
		if _, _, err := n.store.log.Share(1); err != commitlog.ErrRemoved {
			t.Errorf("a read that failed pins its file: %v", err)
		}
	})
}

// A disk that cannot be read gives an error or what lies before, and holds nothing.
func TestPlacesOfADiskThatFails(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	n := start(t, bigConfig(fs))
	defer n.close()
	d := newDriver(t, n.store.Shard(1))
	for range 12 {
		d.produce(200<<10, 1)
	}
	list, err := d.sh.Read(Query{Partition: 1, Limit: 4, MaxBytes: 1 << 20, ByPlace: true})
	if err != nil {
		t.Fatal(err)
	}
	whole := len(list)
	ReleasePlaces(list)
	n.store.forget(1)
	for at := range int64(6) {
		reads := int64(0)
		fs.SetHook(func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".log") {
				if reads++; reads == at+1 {
					return io.ErrNoProgress
				}
			}
			return nil
		})
		list, err := d.sh.Read(Query{Partition: 1, Limit: 4, MaxBytes: 1 << 20, ByPlace: true})
		fs.SetHook(nil)
		if at == 0 && err == nil || at > 0 && reads > at && len(list) >= whole {
			t.Errorf("read %d failed and %d batches came, %v", at, len(list), err)
		}
		ReleasePlaces(list)
	}
}

// Readers by place while files settle, go away and are used again see what was
// written.
func TestPlacesBesideSettlingAndRetention(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%v", direct), func(t *testing.T) { testPlacesBeside(t, direct) })
	}
}

func testPlacesBeside(t *testing.T, direct bool) {
	cfg := bigConfig(vfs.OS())
	cfg.Dir, cfg.Direct = filepath.Join(t.TempDir(), "data"), direct
	n := start(t, cfg)
	defer n.close()
	d := newDriver(t, n.store.Shard(1))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				from := d.sh.LogStart(1)
				list, err := d.sh.Read(Query{Partition: 1, From: from, Limit: from + 8, MaxBytes: 1 << 20, ByPlace: true})
				if err != nil && rhumb.KindOf(err) != rhumb.KindOutOfRange {
					t.Error(err)
					return
				}
				for i := range list {
					b := placedBytes(t, &list[i])
					for k := range b[61:] {
						if b[61+k]-b[61] != byte(k) { // see makeBatch
							t.Errorf("batch at %d: byte %d is another one's", list[i].Base, k)
							break
						}
					}
				}
				ReleasePlaces(list)
			}
		})
	}
	for i := range 200 {
		d.produce([]int{30, 30, 90}[i%3]<<10, 1)
		if i%10 == 9 {
			d.update(&Update{LogStarts: []LogStart{{Partition: 1, Start: d.next[1] - 15}}})
		}
	}
	close(stop)
	readers.Wait()
}
