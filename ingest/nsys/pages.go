package nsys

import (
	"encoding/binary"
	"errors"
	"os"
)

// pager reads the rows of a table straight from the pages of the file, several times as fast as the driver does. It takes what is plain:
// whole leaves whose cells lie where they should, with integers, NULL and text that does not run over to other pages. Of everything else,
// and of all that is damaged, it keeps its hands: the driver reads that, and says what is wrong with it.
//
// The format is that of https://www.sqlite.org/fileformat2.html; the checks of a page are those of btreeInitPage.
type pager struct {
	f      *os.File
	size   int64 // bytes of a page
	usable int   // bytes of a page that hold content
	utf8   bool
	pages  uint32

	window []byte // some pages in a row, as they were read last
	first  uint32 // number of the first one
	whole  uint32 // how many of them there are
	ahead  uint32 // how many to read at once: more and more while they lie side by side
}

const (
	windowBytes = 256 << 10
	maxTree     = 24 // levels of a table
	leafFlags   = 0x0D
	innerFlags  = 0x05
	lockByte    = 1 << 30 // no tree has the page that holds it
)

// errNotPlain says that the driver has to go on.
var errNotPlain = errors.New("not a plain page")

// openPager opens the file for reading; nil where its header is not as it should be.
func openPager(path string) *pager {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	head := make([]byte, 100)
	info, err := f.Stat()
	if err == nil {
		_, err = f.ReadAt(head, 0)
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 1 << 16
	}
	usable := size - int64(head[20])
	if err != nil || string(head[:16]) != "SQLite format 3\x00" || size < 512 || size&(size-1) != 0 || usable < 480 || info.Size()/size >= 1<<32 {
		f.Close()
		return nil
	}
	p := &pager{f: f, size: size, usable: int(usable), utf8: binary.BigEndian.Uint32(head[56:]) == 1, ahead: 1, pages: uint32(info.Size() / size)}
	if n := binary.BigEndian.Uint32(head[28:]); n != 0 && string(head[24:28]) == string(head[92:96]) {
		p.pages = min(p.pages, n)
	}
	return p
}

func (p *pager) close() error { return p.f.Close() }

// page gives a page until the next call.
func (p *pager) page(no uint32) ([]byte, bool) {
	if no < 2 || no > p.pages || int64(no-1) == lockByte/p.size {
		return nil, false
	}
	if no < p.first || no-p.first >= p.whole {
		if p.window == nil {
			p.window = make([]byte, max(windowBytes, p.size))
		}
		most := uint32(int64(len(p.window)) / p.size)
		if no >= p.first && no-p.first < p.whole+most {
			p.ahead = min(2*p.ahead, most)
		} else {
			p.ahead = 1
		}
		n := min(p.ahead, p.pages-no+1)
		p.first, p.whole = no, 0
		if _, err := p.f.ReadAt(p.window[:int64(n)*p.size], int64(no-1)*p.size); err != nil {
			return nil, false
		}
		p.whole = n
	}
	at := int64(no-p.first) * p.size
	return p.window[at : at+p.size][:p.usable], true
}

// walk shows the leaves of the tree under page no in order. left is how many pages the tree may still have.
func (p *pager) walk(no uint32, depth int, left *uint32, leaf func(page []byte) error) error {
	if *left == 0 || depth == maxTree {
		return errNotPlain
	}
	*left--
	page, ok := p.page(no)
	if !ok {
		return errNotPlain
	}
	n := int(binary.BigEndian.Uint16(page[3:]))
	switch {
	case page[0] == leafFlags && (n > 0 || depth == 0):
		return leaf(page)
	case page[0] != innerFlags || n == 0 || n > int(p.size-8)/6:
		return errNotPlain
	}
	cells := 12 + 2*n
	if cells > p.usable-5 {
		return errNotPlain
	}
	children := make([]uint32, 0, n+1)
	for i := range n {
		at := int(binary.BigEndian.Uint16(page[12+2*i:]))
		if at < cells || at > p.usable-5 {
			return errNotPlain
		}
		if _, k := uvarint(page[at+4:]); k == 0 {
			return errNotPlain
		}
		children = append(children, binary.BigEndian.Uint32(page[at:]))
	}
	children = append(children, binary.BigEndian.Uint32(page[8:]))
	for _, c := range children {
		if err := p.walk(c, depth+1, left, leaf); err != nil {
			return err
		}
	}
	return nil
}

// uvarint reads a number of the format; n is 0 where b is too short.
func uvarint(b []byte) (v uint64, n int) {
	for i, c := range b[:min(len(b), 9)] {
		if i == 8 {
			return v<<8 | uint64(c), 9
		}
		v = v<<7 | uint64(c&0x7F)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// plan says which stored columns of a table make a row, and how.
type plan struct {
	place []int8 // by stored column, up to the last one asked for: its place in the row, -1 not asked for
	k     int    // columns of the row
	text  uint64 // places of text; the others are numbers
	none  uint64 // places of columns that the table lacks
}

// leafRows are the rows of one leaf.
type leafRows struct {
	at   []int // where the record of each begins in the page
	end  []int // and ends
	id   []int64
	v    []int64 // row after row
	null []uint64
	text [][]byte // row after row, in the page; none where the plan has no text
}

// ids finds the rows of a leaf, which must come after a rowid. Not ok: the page is damaged.
func (l *leafRows) ids(p *pager, page []byte, after int64) bool {
	l.at, l.end, l.id = l.at[:0], l.end[:0], l.id[:0]
	n := int(binary.BigEndian.Uint16(page[3:]))
	cells := 8 + 2*n
	if n > int(p.size-8)/6 || cells > p.usable-4 {
		return false
	}
	for i := range n {
		at := int(binary.BigEndian.Uint16(page[8+2*i:]))
		if at < cells || at > p.usable-4 {
			return false
		}
		bytes, a := uvarint(page[at:])
		id, b := uvarint(page[min(at+a, len(page)):])
		if a == 0 || b == 0 {
			return false
		}
		begin := at + a + b
		end := begin + int(min(bytes, 1<<31))
		if bytes > uint64(p.usable-35) { // it runs over
			end = -1
		} else if max(end, at+4) > p.usable {
			return false
		}
		if i == 0 && int64(id) <= after || i > 0 && int64(id) <= l.id[i-1] {
			return false
		}
		l.at, l.end, l.id = append(l.at, begin), append(l.end, end), append(l.id, int64(id))
	}
	return true
}

// read takes the rows of the leaf apart that ids found. Not ok: one of them is for the driver.
func (l *leafRows) read(page []byte, pl *plan) bool {
	n := len(l.id)
	if cap(l.v) < n*pl.k {
		l.v = make([]int64, n*pl.k)
	}
	l.v, l.null = l.v[:n*pl.k], l.null[:0]
	clear(l.v)
	if pl.text != 0 {
		if cap(l.text) < n*pl.k {
			l.text = make([][]byte, n*pl.k)
		}
		l.text = l.text[:n*pl.k]
		clear(l.text)
	}
	for i := range n {
		if l.end[i] < 0 {
			return false
		}
		rec := page[l.at[i]:l.end[i]]
		size, a := uvarint(rec)
		if a == 0 || size < uint64(a) || size > uint64(len(rec)) {
			return false
		}
		head, at := rec[a:size], int(size)
		null := pl.none
		v := l.v[i*pl.k : (i+1)*pl.k]
		for _, place := range pl.place {
			if len(head) == 0 {
				return false // a column that was added later: it has its default
			}
			t := uint64(head[0])
			if t < 0x80 {
				head = head[1:]
			} else {
				var b int
				if t, b = uvarint(head); b == 0 {
					return false
				}
				head = head[b:]
			}
			end := at
			if t < uint64(len(typeBytes)) {
				end += int(typeBytes[t])
			} else if t = min(t, 1<<30|t&1); t >= 12 {
				end += int(t-12) / 2
			}
			if end > len(rec) {
				return false
			}
			if place >= 0 {
				isText := pl.text>>place&1 != 0
				switch b := rec[at:end]; {
				case t == 0:
					null |= 1 << place
				case isText:
					if t < 12 || t&1 == 0 {
						return false
					}
					l.text[i*pl.k+int(place)] = b
				default:
					switch t {
					case 1:
						v[place] = int64(int8(b[0]))
					case 2:
						v[place] = int64(int16(binary.BigEndian.Uint16(b)))
					case 3:
						v[place] = int64(int8(b[0]))<<16 | int64(binary.BigEndian.Uint16(b[1:]))
					case 4:
						v[place] = int64(int32(binary.BigEndian.Uint32(b)))
					case 5:
						v[place] = int64(int16(binary.BigEndian.Uint16(b)))<<32 | int64(binary.BigEndian.Uint32(b[2:]))
					case 6:
						v[place] = int64(binary.BigEndian.Uint64(b))
					case 8:
					case 9:
						v[place] = 1
					default:
						return false // a fraction, text, a BLOB
					}
				}
			}
			at = end
		}
		l.null = append(l.null, null)
	}
	return true
}

// typeBytes is how many bytes a value of each type has, for those below text.
var typeBytes = [12]uint8{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8}
