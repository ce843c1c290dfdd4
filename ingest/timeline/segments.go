package timeline

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"
)

// segmentsBlock is how many segments follow one another before one says again where it stands.
const segmentsBlock = 256

// Segments is a list of segments in order of start, packed: a job of hundreds of ranks holds those of all of them. Some 6 bytes a segment.
// The zero value is the empty list.
type Segments struct {
	n      int
	by     Time // added to every start
	data   []byte
	blocks []segmentBlock
	last   packState // after the last segment
}

// segmentBlock is where a run of segmentsBlock segments begins.
type segmentBlock struct {
	at    int32 // in data
	start Time
}

// packState is what a segment is written as a difference from.
type packState struct {
	end Time
	row [NOwners]uint32 // of the last segment of each owner in the block
}

// A segment is its owner, with a bit each for what follows that is seldom there, then its length, and its row less that of the owner's last.
const (
	segmentHasSub = 1 << 7
	segmentHasGap = 1 << 6 // does not begin where the one before it ends
)

var _ [segmentHasGap - int(NOwners)]struct{} // an owner fits beside the bits

// PackSegments packs a list that is in order of start.
func PackSegments(list []Segment) (s Segments) {
	if len(list) == 0 {
		return s
	}
	s.data = make([]byte, 0, 7*len(list))
	s.blocks = make([]segmentBlock, 0, len(list)/segmentsBlock+1)
	for i := range list {
		s.Add(list[i])
	}
	if cap(s.data)-len(s.data) > len(s.data)/16 {
		s.data = slices.Clone(s.data)
	}
	return s
}

// Add appends a segment, which begins no earlier than the last one.
func (s *Segments) Add(g Segment) {
	start := g.Start - s.by
	if s.n%segmentsBlock == 0 {
		s.blocks = append(s.blocks, segmentBlock{int32(len(s.data)), start})
		s.last = packState{end: start}
	}
	head := byte(g.Owner)
	if g.Sub != SubNone {
		head |= segmentHasSub
	}
	if start != s.last.end {
		head |= segmentHasGap
	}
	s.data = append(s.data, head)
	if g.Sub != SubNone {
		s.data = append(s.data, byte(g.Sub))
	}
	if start != s.last.end {
		s.data = binary.AppendVarint(s.data, int64(start-s.last.end))
	}
	s.data = binary.AppendUvarint(s.data, uint64(g.Dur))
	s.data = binary.AppendVarint(s.data, int64(int32(g.Row-s.last.row[g.Owner])))
	s.last.end, s.last.row[g.Owner] = start+Time(g.Dur), g.Row
	s.n++
}

// Len is how many segments there are.
func (s *Segments) Len() int { return s.n }

// Shift moves all of them.
func (s *Segments) Shift(by Time) {
	if s.n > 0 {
		s.by += by
	}
}

// All gives the segments in order.
func (s *Segments) All() iter.Seq[Segment] { return s.blocksFrom(0) }

// From gives, in order, the segments that end after t.
func (s *Segments) From(t Time) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		before := true
		for g := range s.blocksFrom(s.BlockAt(t)) {
			if before && g.Start+Time(g.Dur) <= t {
				continue
			}
			before = false
			if !yield(g) {
				return
			}
		}
	}
}

// Blocks is in how many runs the list is cut, each of which can be read without those before it.
func (s *Segments) Blocks() int { return len(s.blocks) }

// BlockAt is the last run that begins at t or earlier; the first where none does.
func (s *Segments) BlockAt(t Time) int {
	return max(0, sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].start+s.by > t })-1)
}

// Block gives the segments of one run.
func (s *Segments) Block(k int) iter.Seq[Segment] {
	return func(yield func(Segment) bool) { s.block(k, yield) }
}

// List gives the segments unpacked.
func (s *Segments) List() []Segment {
	if s.n == 0 {
		return nil
	}
	return s.AppendTo(make([]Segment, 0, s.n))
}

// AppendTo appends the segments, unpacked, to a list.
func (s *Segments) AppendTo(list []Segment) []Segment {
	for g := range s.All() {
		list = append(list, g)
	}
	return list
}

// Equal tells whether two lists hold the same segments.
func (s Segments) Equal(o Segments) bool {
	return s.n == o.n && slices.Equal(s.List(), o.List())
}

func (s *Segments) blocksFrom(k int) iter.Seq[Segment] {
	return func(yield func(Segment) bool) {
		for ; k < len(s.blocks); k++ {
			if !s.block(k, yield) {
				return
			}
		}
	}
}

// block gives the segments of a run until yield has enough.
func (s *Segments) block(k int, yield func(Segment) bool) bool {
	at := s.blocks[k].at
	end := s.blocks[k].start + s.by
	var row [NOwners]uint32
	data := s.data[at:]
	for range min(segmentsBlock, s.n-k*segmentsBlock) {
		head := data[0]
		data = data[1:]
		g := Segment{Start: end, Owner: Owner(head & (segmentHasGap - 1))}
		if head&segmentHasSub != 0 {
			g.Sub = Sub(data[0])
			data = data[1:]
		}
		if head&segmentHasGap != 0 {
			gap, n := binary.Varint(data)
			data = data[n:]
			g.Start += Time(gap)
		}
		dur, n := binary.Uvarint(data)
		data = data[n:]
		delta, n := binary.Varint(data)
		data = data[n:]
		g.Dur, g.Row = int64(dur), row[g.Owner]+uint32(int32(delta))
		end, row[g.Owner] = g.Start+Time(g.Dur), g.Row
		if !yield(g) {
			return false
		}
	}
	return true
}
