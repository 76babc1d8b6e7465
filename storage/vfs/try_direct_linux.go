package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directName is the file of a trial. One that a crash left is used again by the next one.
const directName = "direct.try"

// directPays names the file systems on which passing the page cache by was seen to pay:
// those that lay files out in place on a local disk. On others it may work and still be
// slower or change nothing: tmpfs is memory, those of a network have the client's cache as
// their fast part, those that write copies (btrfs, ZFS, bcachefs) check or compress what
// passes through it, and overlays and FUSE hide which one they are on.
var directPays = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", // and ext2, ext3
	unix.XFS_SUPER_MAGIC:  "xfs",
}

// otherSystems names usual ones of the others, for the reason.
var otherSystems = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS", unix.FUSE_SUPER_MAGIC: "FUSE",
	unix.CEPH_SUPER_MAGIC: "Ceph", unix.V9FS_MAGIC: "9p", unix.F2FS_SUPER_MAGIC: "f2fs", 0x2fc12fc1: "ZFS",
}

// TryDirect looks at the file system, and has a file written and read past the page cache as
// the log does it.
func (fsys osFS) TryDirect(dir string) error {
	var st unix.Statfs_t
	if err := ignoringInterrupts(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return fmt.Errorf("%w: %w", ErrNoDirect, &fs.PathError{Op: "statfs", Path: dir, Err: err})
	}
	kind := int64(st.Type) & 0xffffffff // a signed 32-bit number on some machines
	if directPays[kind] == "" {
		name := otherSystems[kind]
		if name == "" {
			name = fmt.Sprintf("type %#x", kind)
		}
		return fmt.Errorf("%w: the file system is %s", ErrNoDirect, name)
	}
	if err := fsys.tryDirect(filepath.Join(dir, directName)); err != nil {
		return fmt.Errorf("%w: a trial on %s: %w", ErrNoDirect, directPays[kind], err)
	}
	return nil
}

func (fsys osFS) tryDirect(name string) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), fsys.Remove(name)) }()
	const size = DirectFrom + TailBlock
	if err := f.Allocate(size); err != nil {
		return err
	}
	want := make([]byte, DirectFrom+100) // not a whole number of blocks
	for i := range want {
		want[i] = byte(i*7 + i>>9)
	}
	if err := f.WriteTail(0, [][]byte{want}); err != nil {
		return err
	}
	if !f.(*osFile).wroteDirect() {
		return errors.New("writing is refused")
	}
	if err := f.(*osFile).isDirect(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	got, free := Huge(size)
	defer free()
	switch n, err := f.ReadDirect(0, [][]byte{got}); {
	case err != nil:
		return err
	case n < size || !bytes.Equal(got[:len(want)], want):
		return errors.New("what was read is not what was written")
	}
	return nil
}

// isDirect asks the file system, of Linux 6.1 and later, whether it does as it says: that of
// an encrypted folder, or one that writes data to its journal, takes everything that is to
// pass the cache by, and puts it there all the same.
func (f *osFile) isDirect() error {
	var st unix.Statx_t
	err := f.control("statx", func(fd int) error {
		return ignoringInterrupts(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st) })
	})
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return nil // not known: the trial decides alone
	}
	return judgeAlign(st.Dio_mem_align, st.Dio_offset_align)
}

// judgeAlign says what is against direct access to a file with these alignments; 0 is none.
func judgeAlign(memory, offset uint32) error {
	switch {
	case memory == 0 || offset == 0:
		return errors.New("this file's data go through the page cache in any case: encryption, or a journal of data")
	case memory > TailBlock || offset > TailBlock:
		return fmt.Errorf("it takes multiples of %d bytes only", max(memory, offset))
	}
	return nil
}

// wroteDirect tells if the last WriteTail passed the page cache by or would have, if large.
func (f *osFile) wroteDirect() bool {
	t := &f.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened && !t.unable
}
