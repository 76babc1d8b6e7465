package vfs

const pageSize = 4096

// page is a piece of a file. A shared page belongs to several images and is
// never written again; once shared it stays so.
type page struct {
	shared bool
	data   [pageSize]byte
}

// image is the content of a file, sparse: absent pages are zeros.
type image struct {
	size  int64
	pages map[int64]*page
}

func newImage() image { return image{pages: map[int64]*page{}} }

// share gives a second image of the same content; later writes to either copy
// the pages that they touch.
func (im *image) share() image {
	c := image{size: im.size, pages: make(map[int64]*page, len(im.pages))}
	for n, p := range im.pages {
		c.pages[n] = sharePage(p)
	}
	return c
}

func sharePage(p *page) *page {
	if !p.shared {
		p.shared = true
	}
	return p
}

// take makes page n the same as in from.
func (im *image) take(n int64, from *image) {
	if p := from.pages[n]; p != nil {
		im.pages[n] = sharePage(p)
	} else {
		delete(im.pages, n)
	}
}

func (im *image) own(n int64) *page {
	p := im.pages[n]
	switch {
	case p == nil:
		p = new(page)
	case p.shared:
		p = &page{data: p.data}
	default:
		return p
	}
	im.pages[n] = p
	return p
}

// write puts b at off and grows the image if it ends beyond.
func (im *image) write(off int64, b []byte) {
	im.size = max(im.size, off+int64(len(b)))
	for len(b) > 0 {
		n, at := off/pageSize, off%pageSize
		k := copy(im.own(n).data[at:], b)
		b, off = b[k:], off+int64(k)
	}
}

// read fills b from off and gives how many bytes lie within the image.
func (im *image) read(off int64, b []byte) int {
	if off >= im.size {
		return 0
	}
	b = b[:min(int64(len(b)), im.size-off)]
	for rest := b; len(rest) > 0; {
		n, at := off/pageSize, off%pageSize
		k := int(min(pageSize-at, int64(len(rest))))
		if p := im.pages[n]; p != nil {
			copy(rest[:k], p.data[at:])
		} else {
			clear(rest[:k])
		}
		rest, off = rest[k:], off+int64(k)
	}
	return len(b)
}

// truncate sets the size; what lies beyond a smaller one reads as zeros if the
// image grows again.
func (im *image) truncate(size int64) {
	if size < im.size {
		last := size / pageSize
		for n := range im.pages {
			if n > last {
				delete(im.pages, n)
			}
		}
		if im.pages[last] != nil {
			clear(im.own(last).data[size%pageSize:])
		}
	}
	im.size = size
}
